package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) deadRedriveCommand() *cobra.Command {
	var o opsFlags
	var f selectFlags
	cmd := &cobra.Command{
		Use:   "redrive [EVENT-ID...]",
		Short: "Make dead events due again, once their cause is gone",
		Long: `Make dead events due again, with no attempt counted: relays publish them in their
place in the order of their aggregate. Later events of it may have been published
meanwhile; dead show says how many.

Without --yes nothing is changed. However many people do it at once, each event goes out
once for the death that was seen. Every event is written down in the audit.
Ends with exit code 1 when one that was named was not dead any more.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.mendDead(cmd, o, f, args, "made due again", func(ctx context.Context, s *ops.Service, plan ops.Plan) ([]ops.Result, error) {
				return s.RedriveDead(ctx, plan, f.pace(a.progress("made due again")))
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags(), true)
	cmd.Flags().BoolVar(&f.selectionDiscarded, "discarded", false, "take discarded events in place of dead ones")
	return cmd
}

func (a *app) deadDiscardCommand() *cobra.Command {
	var o opsFlags
	var f selectFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "discard [EVENT-ID...] --reason TEXT",
		Short: "Give dead events up for good",
		Long: `Give dead events up: nobody publishes them. They stay in the table as discarded, and
dead redrive --discarded brings them back.

Without --yes nothing is changed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return errNoReason
			}
			return a.mendDead(cmd, o, f, args, "discarded", func(ctx context.Context, s *ops.Service, plan ops.Plan) ([]ops.Result, error) {
				return s.DiscardDead(ctx, plan, reason, f.pace(a.progress("discarded")))
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags(), false)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return cmd
}

var errNoReason = hinted{errors.New("--reason is missing"), "say why: it is all that will be known of these events later"}

// mendDead plans a change of dead events, and makes it.
func (a *app) mendDead(cmd *cobra.Command, o opsFlags, f selectFlags, args []string, verb string, do carryOut) error {
	return a.mendSelected(cmd, o, f, args, verb, (*ops.Service).PlanDead, do)
}

// carryOut makes a change that was planned.
type carryOut func(context.Context, *ops.Service, ops.Plan) ([]ops.Result, error)

// mendSelected plans a change of the events that flags and ids select, and makes it.
func (a *app) mendSelected(
	cmd *cobra.Command, o opsFlags, f selectFlags, ids []string, verb string,
	planOf func(*ops.Service, context.Context, ops.Selection) (ops.Plan, error), do carryOut,
) error {
	sel, err := f.selection(cmd, ids, time.Now())
	if err != nil {
		return err
	}
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	plan, err := planOf(s, cmd.Context(), sel)
	if err != nil {
		return opsError(err)
	}
	return a.mend(cmd.Context(), f, mending{verb, plan, func(ctx context.Context) ([]ops.Result, error) { return do(ctx, s, plan) }})
}

func (a *app) parkedRedriveCommand() *cobra.Command {
	var o opsFlags
	var f selectFlags
	var await time.Duration
	var force bool
	var reason string
	cmd := &cobra.Command{
		Use:   "redrive CONSUMER [EVENT-ID...]",
		Short: "Let a consumer handle its parked events again, once their cause is gone",
		Long: `Ask a consumer's processes to hand parked events to its handler again: in the order in
which they were parked, those of an aggregate by their versions, at a rate. They go past the
broker, and past the order of their aggregate: later events have been applied meanwhile.
An event that fails again stays parked, with the new reason.

Without --yes nothing is changed. However many people ask, each event is handed over once
for it. The command waits for what comes of it, as long as --wait says.

Of an event that the consumer has processed it only says so. With --force the event is
taken from the outbox and delivered anew, to this consumer alone: the handler runs again, and
its effect happens a second time.

Ends with exit code 1 when an event was not applied.`,
		Args: needsConsumer,
		RunE: func(cmd *cobra.Command, args []string) error {
			if force {
				return a.force(cmd, o, f, args, reason, await)
			}
			if cmd.Flags().Changed("reason") {
				return hinted{errors.New("--reason is for --force"), "leave it out: the audit has who asked, and for which selection"}
			}
			return a.mendParked(cmd, o, f, args, handledAgain(args[0], await), func(ctx context.Context, s *ops.Service, plan ops.Plan) ([]ops.Result, error) {
				return a.redriveParked(ctx, s, plan, f, await)
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags(), true)
	cmd.Flags().BoolVar(&force, "force", false, "hand over events that were processed before, by their ids")
	cmd.Flags().StringVar(&reason, "reason", "", "with --force: why, for the audit")
	cmd.Flags().DurationVar(&await, "wait", time.Minute, "how long to wait for the consumer's processes; 0 not to")
	return cmd
}

// handledAgain is what becomes of redriven events: what the consumer has done, or will do.
func handledAgain(consumer string, await time.Duration) string {
	if await <= 0 {
		return "to be handled again by the processes of " + consumer
	}
	return "handled again by " + consumer
}

func (a *app) parkedDiscardCommand() *cobra.Command {
	var o opsFlags
	var f selectFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "discard CONSUMER [EVENT-ID...] --reason TEXT",
		Short: "Give parked events up for good, and delete their bodies",
		Long: `Give parked events up: their rows, with the bodies, are deleted. The dedup rows stay and
say so, so that a redelivery is absorbed. This can't be undone.

Without --yes nothing is changed.`,
		Args: needsConsumer,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return errNoReason
			}
			return a.mendParked(cmd, o, f, args, "discarded", func(ctx context.Context, s *ops.Service, plan ops.Plan) ([]ops.Result, error) {
				return s.DiscardParked(ctx, plan, reason, f.pace(a.progress("discarded")))
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags(), false)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return cmd
}

func needsConsumer(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return hinted{errors.New("no consumer is named"), "name it before the event ids: parked redrive sales-report --all"}
	}
	return nil
}

// mendParked plans a change of parked events, and makes it.
func (a *app) mendParked(cmd *cobra.Command, o opsFlags, f selectFlags, args []string, verb string, do carryOut) error {
	planOf := func(s *ops.Service, ctx context.Context, sel ops.Selection) (ops.Plan, error) { //nolint:revive // a method's order
		return s.PlanParked(ctx, args[0], sel)
	}
	return a.mendSelected(cmd, o, f, args[1:], verb, planOf, do)
}

// redriveParked asks for redrives and waits for what comes of them.
func (a *app) redriveParked(ctx context.Context, s *ops.Service, plan ops.Plan, f selectFlags, await time.Duration) ([]ops.Result, error) {
	since, err := s.LastAudit(ctx, plan.Consumer)
	if err != nil {
		return nil, err
	}
	results, err := s.RedriveParked(ctx, plan, f.pace(nil))
	return a.awaitAsked(ctx, s, plan.Consumer, since, results, err, await)
}

// awaitAsked waits for those of results that were asked for.
func (a *app) awaitAsked(ctx context.Context, s *ops.Service, consumer string, since int64, results []ops.Result, err error, await time.Duration) ([]ops.Result, error) {
	var asked []uuid.UUID
	for _, r := range results {
		if r.Done {
			asked = append(asked, r.EventID)
		}
	}
	if err != nil || len(asked) == 0 || await <= 0 {
		return results, err
	}
	return a.awaitRedrives(ctx, s, consumer, since, results, asked, await)
}

// awaitRedrives replaces the results of those that were asked for by what came of them.
func (a *app) awaitRedrives(ctx context.Context, s *ops.Service, consumer string, since int64, results []ops.Result, asked []uuid.UUID, await time.Duration) ([]ops.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, await)
	defer cancel()
	came := map[uuid.UUID]ops.Result{}
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		list, waiting, err := s.RedriveResults(ctx, consumer, asked, since)
		if err != nil && ctx.Err() == nil {
			return results, err
		}
		for _, r := range list {
			came[r.EventID] = r
		}
		if err == nil && waiting == 0 {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			tick.Stop()
		}
		break
	}
	for i, r := range results {
		switch result, known := came[r.EventID]; {
		case !r.Done:
		case known:
			results[i] = result
		default:
			results[i].Done = false
			results[i].Note = fmt.Sprintf("still waiting after %s: not its turn yet (--rate), or no process of %s runs that was built with this version; it is carried out when one does", await, consumer)
		}
	}
	return results, nil
}
