package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) parkedListCommand() *cobra.Command {
	var o opsFlags
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list [CONSUMER]",
		Short: "List parked events, the oldest first: of a consumer, or the first ones of each",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.conditions(cmd, time.Now())
			if err != nil {
				return err
			}
			q := ops.ParkedQuery{
				Type: f.typ, Kind: f.kind, AggregateType: c.aggregateType, AggregateID: c.aggregateID, Before: c.before, After: c.after,
				Cursor: f.page.cursor, Limit: f.page.limit,
			}
			if len(args) == 1 {
				q.Consumer = args[0]
			} else if q.Cursor != "" {
				return hinted{fmt.Errorf("--cursor goes on in a list of one consumer"), "name the consumer: parked list sales-report --cursor " + q.Cursor}
			}
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				found, err := s.Parked(ctx, q)
				if err != nil {
					return err
				}
				return a.printData(found, func(t *tableWriter) {
					now := time.Now()
					if len(found.Items) > 0 {
						t.row("CONSUMER", "EVENT", "TYPE", "AGGREGATE", "VERSION", "PARKED", "ATTEMPTS", "KIND", "REASON")
					}
					for _, e := range found.Items {
						t.row(e.Consumer, e.EventID, orDash(e.Type), aggregateOf(e.PlannedEvent), e.AggregateVersion, when(&e.FailedAt, now), e.Attempts, e.Kind, orDash(shortened(redriveAsked(e.PlannedEvent)+e.Reason, 60)))
					}
					endOfPage(t, len(found.Items), "no such event is parked", found.Note, "cursor", found.Next)
				})
			})
		},
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags())
	return cmd
}

func redriveAsked(e ops.PlannedEvent) string {
	if e.Requested == "" {
		return ""
	}
	return "(redrive asked for by " + e.Requested + ") "
}

func aggregateOf(e ops.PlannedEvent) string {
	if e.AggregateType == "" && e.AggregateID == "" {
		return "-" // of a message that isn't an event
	}
	return e.AggregateType + "/" + e.AggregateID
}

// parkedLife is what parked show prints.
type parkedLife struct {
	Consumer string            `json:"consumer"`
	EventID  uuid.UUID         `json:"event_id"`
	Parked   *ops.PlannedEvent `json:"parked,omitempty"`

	// InOutbox says that the outbox still has the event.
	InOutbox bool   `json:"in_outbox"`
	Note     string `json:"note"`
}

func (a *app) parkedShowCommand() *cobra.Command {
	var o opsFlags
	cmd := &cobra.Command{
		Use:   "show CONSUMER EVENT-ID",
		Short: "Show a parked event, and whether the outbox still has it",
		Long: `Show why a consumer parked an event, and whether the outbox still has the event.
Its body is not shown. Ends with exit code 1 when it isn't parked.`,
		Args: consumerAndEvent,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				return a.parkedShow(ctx, s, args[0], given(args[1]))
			})
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (a *app) parkedShow(ctx context.Context, s *ops.Service, consumer string, id uuid.UUID) error {
	plan, err := s.PlanParked(ctx, consumer, ops.Selection{IDs: []uuid.UUID{id}})
	if err != nil {
		return err
	}
	life, err := s.Show(ctx, id)
	if err != nil {
		return err
	}
	out := parkedLife{Consumer: consumer, EventID: id, InOutbox: life.Event != nil, Note: life.Note}
	if out.InOutbox {
		out.Note = "the outbox has the event: " + life.Event.State
	}
	if len(plan.Events) == 1 {
		out.Parked = &plan.Events[0]
	} else if len(plan.Gone) == 1 {
		out.Note = plan.Gone[0].Note + "; " + out.Note
	}
	err = a.printData(out, func(t *tableWriter) { parkedTable(t, out) })
	if err != nil || out.Parked != nil {
		return err
	}
	return errNotSo
}

func parkedTable(t *tableWriter, out parkedLife) {
	t.row("consumer", out.Consumer)
	t.row("event", out.EventID)
	if p := out.Parked; p != nil {
		t.row("type", orDash(p.Type))
		t.row("aggregate", fmt.Sprintf("%s, version %d", aggregateOf(*p), p.AggregateVersion))
		t.row("parked", when(&p.FailedAt, time.Now()))
		t.row("kind", p.Kind)
		t.row("reason", p.Reason)
		t.row("attempts", p.Attempts)
		if p.Requested != "" {
			t.row("redrive", "asked for by "+p.Requested)
		}
	}
	t.row("note", out.Note)
}
