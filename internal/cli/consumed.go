package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) consumedCommand() *cobra.Command {
	var o opsFlags
	cmd := &cobra.Command{
		Use:   "consumed CONSUMER EVENT-ID",
		Short: "Say whether a consumer is done with an event: by the exit code too",
		Long: `Say what a consumer made of an event. Ends with exit code 0 when it is done with it:
applied, skipped as stale, parked or discarded; with 1 when it isn't, and what is known of
it is said then.

A dedup row is kept as long as the consumer's retain says: of an older event nothing is
known any more.`,
		Args: consumerAndEvent,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				return a.consumed(ctx, s, args[0], args[1])
			})
		},
	}
	o.register(cmd.Flags())
	return cmd
}

// consumption is what consumed prints.
type consumption struct {
	EventID string `json:"event_id"`
	ops.Consumption

	// EventState is the outbox's, asked for when the consumer isn't done; empty when it has no such event.
	EventState string `json:"event_state,omitempty"`
	Note       string `json:"note,omitempty"`
}

func (a *app) consumed(ctx context.Context, s *ops.Service, consumer, event string) error {
	id := given(event)
	c, err := s.Consumed(ctx, consumer, id)
	if err != nil {
		return err
	}
	out := consumption{EventID: id.String(), Consumption: c}
	if !c.Done {
		life, err := s.Show(ctx, id)
		if err != nil {
			return err
		}
		for _, one := range life.Consumers {
			if one.Consumer == consumer {
				out.Consumption = one // as it is now; it may be done meanwhile
			}
		}
		out.EventState, out.Note = eventState(life, out.Consumption)
	}
	if err := a.printData(out, func(t *tableWriter) { consumptionTable(t, out) }); err != nil || out.Done {
		return err
	}
	return errNotSo
}

// eventState says why a consumer has nothing, or not all, of an event.
func eventState(life ops.Life, c ops.Consumption) (state, note string) {
	switch e := life.Event; {
	case c.Done:
		return "", ""
	case e == nil:
		return "", life.Note
	case !c.Handles:
		return e.State, "events.yaml doesn't have it handle " + e.Type
	case e.State == "PUBLISHED" && c.State == "open":
		return e.State, "published; the broker has not delivered it to this consumer, or it is being handled"
	case e.State == "PUBLISHED":
		return e.State, ""
	case e.State == "DEAD" || e.State == "DISCARDED":
		return e.State, "not published: the event is " + e.State
	default:
		return e.State, "not published yet: the event is " + e.State
	}
}

func consumptionTable(t *tableWriter, c consumption) {
	now := time.Now()
	state := consumptionState(ops.Consumption{State: c.State, RedriveBy: c.RedriveBy, RedriveAt: c.RedriveAt, Handles: true}, now)
	if c.At != nil {
		state += " " + when(c.At, now)
	}
	t.row(c.Consumer + ": " + state)
	if c.Reason != "" || c.Kind != "" {
		t.row(fmt.Sprintf("%s: %s (%s)", orDash(c.Kind), c.Reason, counted(c.Attempts, "failed attempt")))
	}
	if c.Note != "" {
		t.row(c.Note)
	}
}
