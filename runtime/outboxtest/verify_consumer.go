package outboxtest

import (
	"context"
	"regexp"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// consumerActor is a consumer whose handling is watched.
type consumerActor struct {
	*actor
	outbox.Handler
	v *verification

	// dieApplied lets it die when it has committed, before the acknowledgement.
	dieApplied bool
}

func (v *verification) newConsumer(ctx context.Context, c Consumer) (*consumerActor, error) {
	a, err := v.newActor(ctx, "consumer")
	if err != nil {
		return nil, err
	}
	return &consumerActor{actor: a, Handler: c.New(a.db), v: v}, nil
}

func (c *consumerActor) start() {
	c.running.Go(func() { _ = c.v.cfg.Subscribe(c.ctx, c) }) // what it was to deliver is missed if it fails
}

// Handle implements [outbox.Handler].
func (c *consumerActor) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	if c.dead.Load() {
		return outbox.NotHandled, errDead
	}
	handling, err := c.Handler.Handle(ctx, e)
	result := handling.String()
	if err != nil {
		result = "error"
	}
	at := eventAt{e.ID, c.Name()}
	c.v.note(func(h *history.History) {
		h.Deliveries = append(h.Deliveries, history.Delivery{EventID: e.ID, Consumer: at.consumer, Result: result})
		if handling == outbox.Applied {
			c.v.payloads[at] = e.Data
		}
	})
	switch {
	case err != nil:
		return handling, err
	case c.dieApplied && handling == outbox.Applied:
		c.v.fault(fault.ConsumerCommitted, record.OutcomeKill, e.ID)
		c.die()
		return outbox.NotHandled, errDead
	}
	// From here on it is acknowledged.
	c.v.noteAck(ctx, at)
	return handling, nil
}

// insertsInto makes a match for the generated statement that inserts into a table, with any
// prefix.
func insertsInto(table string) func(string) bool {
	return regexp.MustCompile(`^(?:\s|--[^\n]*\n)*INSERT INTO \w*` + table + ` \(`).MatchString
}

// otherErrors are errors of a dedup row's insert that say nothing about a duplicate event.
var otherErrors = []mysqlproxy.ServerError{
	{Number: 1062, State: "23000", Message: "Duplicate entry '1' for key 'other_table.uq_other'"},
	{Number: 1406, State: "22001", Message: "Data too long for column 'consumer_name' at row 1"},
}
