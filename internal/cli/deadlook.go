package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) deadListCommand() *cobra.Command {
	var o opsFlags
	var f listFlags
	var discarded bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead events, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.conditions(cmd, time.Now())
			if err != nil {
				return err
			}
			q := ops.DeadQuery{
				Type: f.typ, Kind: f.kind, AggregateType: c.aggregateType, AggregateID: c.aggregateID, Before: c.before, After: c.after,
				Discarded: discarded, Cursor: f.page.cursor, Limit: f.page.limit,
			}
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				found, err := s.Dead(ctx, q)
				if err != nil {
					return err
				}
				return a.printData(found, func(t *tableWriter) {
					now := time.Now()
					if len(found.Items) > 0 {
						t.row("EVENT", "TYPE", "AGGREGATE", "VERSION", "FAILED", "ATTEMPTS", "KIND", "REASON")
					}
					for _, e := range found.Items {
						t.row(e.EventID, e.Type, e.AggregateType+"/"+e.AggregateID, e.AggregateVersion, when(&e.FailedAt, now), e.Attempts, orDash(e.Kind), orDash(shortened(e.Reason, 60)))
					}
					endOfPage(t, len(found.Items), "no such event is "+deadOr(discarded), found.Note, "cursor", found.Next)
				})
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&discarded, "discarded", false, "list discarded events in place of dead ones")
	return cmd
}

func deadOr(discarded bool) string {
	if discarded {
		return "discarded"
	}
	return "dead"
}

// deadLife is what dead show prints.
type deadLife struct {
	ops.Life
	Overtaken *ops.Later `json:"overtaken,omitempty"`
}

func (a *app) deadShowCommand() *cobra.Command {
	var o opsFlags
	cmd := &cobra.Command{
		Use:   "show EVENT-ID",
		Short: "Show a dead event, and what of its aggregate was published meanwhile",
		Long: `Show all that is known of a dead event, as show does, and how many later events of its
aggregate were published meanwhile: a redrive comes behind them.
Ends with exit code 1 when the event is neither dead nor discarded.`,
		Args: oneEventID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				life, err := s.Show(ctx, given(args[0]))
				if err != nil {
					return err
				}
				out := deadLife{Life: life}
				dead := life.Event != nil && (life.Event.State == "DEAD" || life.Event.State == "DISCARDED")
				if dead {
					later, err := s.Overtaken(ctx, *life.Event)
					if err != nil {
						return err
					}
					out.Overtaken = &later
				}
				err = a.printData(out, func(t *tableWriter) {
					if out.Overtaken != nil {
						t.row("published meanwhile", overtaken(*out.Overtaken))
					} else {
						t.row("note", "the event is not dead")
					}
					lifeTable(t, life)
				})
				if err != nil || dead {
					return err
				}
				return errNotSo
			})
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func overtaken(l ops.Later) string {
	switch {
	case l.Note != "":
		return l.Note
	case l.Published == 0:
		return "no later event of its aggregate"
	case l.More:
		return fmt.Sprintf("%d later events of its aggregate, or more: a redrive comes behind them", l.Published)
	case l.Published == 1:
		return "1 later event of its aggregate: a redrive comes behind it"
	default:
		return fmt.Sprintf("%d later events of its aggregate: a redrive comes behind them", l.Published)
	}
}
