package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) showCommand() *cobra.Command {
	var o opsFlags
	cmd := &cobra.Command{
		Use:   "show EVENT-ID",
		Short: "Show the whole life of an event: outbox, consumers, audit",
		Long: `Show all that is known of an event: its row in the outbox, what each consumer made of it,
its business row where events.yaml has a source, and what people did to it.
Payloads are not shown. Ends with exit code 1 when nobody knows the event.`,
		Args: oneEventID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				life, err := s.Show(ctx, given(args[0]))
				if err != nil {
					return err
				}
				if err := a.printData(life, func(t *tableWriter) { lifeTable(t, life) }); err != nil || known(life) {
					return err
				}
				return errNotSo
			})
		},
	}
	o.register(cmd.Flags())
	return cmd
}

// known reports that somebody has something of an event.
func known(life ops.Life) bool {
	if life.Event != nil || life.Source != nil || len(life.Audit) > 0 {
		return true
	}
	for _, c := range life.Consumers {
		if c.State != "open" {
			return true
		}
	}
	return false
}

func lifeTable(t *tableWriter, life ops.Life) {
	now := time.Now()
	t.row("event", life.EventID)
	if e := life.Event; e != nil {
		t.row("type", fmt.Sprintf("%s, schema version %d", e.Type, e.SchemaVersion))
		t.row("aggregate", fmt.Sprintf("%s/%s, version %d", e.AggregateType, e.AggregateID, e.AggregateVersion))
		t.row("state", e.State)
		if e.LeaseOwner != "" {
			t.row("leased by", fmt.Sprintf("%s, host %s, process %d, until %s", e.LeaseOwner, orDash(e.LeaseHost), e.LeasePID, when(e.LeaseUntil, now)))
		}
		t.row("attempts", e.Attempts)
		if text := lastError(*e); text != "" {
			t.row("last error", text)
		}
		t.row("written", when(&e.CreatedAt, now))
		t.row("due", when(&e.AvailableAt, now))
		t.row("published", when(e.PublishedAt, now))
	}
	if life.TraceID != "" {
		t.row("trace", life.TraceID)
	}
	if life.Source != nil {
		t.row("business row", fmt.Sprintf("%s, aggregate %s, of %s", life.Source.Table, life.Source.AggregateID, life.Source.EventType))
	}
	if life.Earlier+life.Later > 0 || life.Around != "" {
		t.row("of its aggregate", fmt.Sprintf("%d earlier and %d later%s", life.Earlier, life.Later, nextID(life.NextID)))
	}
	if life.Around != "" {
		t.row("", life.Around)
	}
	if life.Note != "" {
		t.row("note", life.Note)
	}
	if len(life.Consumers) > 0 {
		t.row()
		consumptionRows(t, life.Consumers, now)
	}
	if len(life.Audit) > 0 {
		t.row()
		auditRows(t, life.Audit)
	}
}

func consumptionRows(t *tableWriter, list []ops.Consumption, now time.Time) {
	t.row("CONSUMER", "STATE", "SINCE", "ATTEMPTS", "KIND", "REASON")
	for _, c := range list {
		t.row(c.Consumer, consumptionState(c, now), when(c.At, now), c.Attempts, orDash(c.Kind), orDash(shortened(c.Reason, 100)))
	}
}

// consumptionState says what a consumer made of an event, in words.
func consumptionState(c ops.Consumption, now time.Time) string {
	state := c.State
	if state == "open" {
		state = "nothing yet"
	}
	if c.RedriveBy != "" {
		state += ", redrive asked for by " + c.RedriveBy + ", due " + when(c.RedriveAt, now)
	}
	if !c.Handles {
		state += " (events.yaml no longer has it handle this)"
	}
	return state
}
