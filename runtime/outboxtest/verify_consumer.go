package outboxtest

import (
	"context"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// consumerActor is a consumer whose handling is watched.
type consumerActor struct {
	*actor
	outbox.Handler

	// dieApplied lets it die when it has committed, before the acknowledgement.
	dieApplied bool
}

func (v *verification) newConsumer(ctx context.Context, c Consumer) (*consumerActor, error) {
	a, err := v.newActor(ctx, "consumer")
	if err != nil {
		return nil, err
	}
	return &consumerActor{actor: a, Handler: c.New(a.db)}, nil
}

func (c *consumerActor) start() {
	c.running.Go(func() {
		if err := c.v.cfg.Subscribe(c.ctx, c); err != nil && c.ctx.Err() == nil {
			c.v.noteBrokerError(c.Name(), err)
		}
	})
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
	if err != nil && !c.dead.Load() {
		c.v.noteHandlerError(at, err)
	}
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
func insertsInto(table string) func(string) bool { return writesTo("INSERT INTO", table) }

func writesTo(how, tables string) func(string) bool {
	return regexp.MustCompile(`^(?:\s|--[^\n]*\n)*(?:` + how + `) \w*(?:` + tables + `)\s`).MatchString
}

// dedupOf makes a match for the insert of an event's dedup row.
func dedupOf(event uuid.UUID) func(string) bool {
	insert, id := insertsInto(consumedTable), event.String()
	return func(statement string) bool { return insert(statement) && strings.Contains(statement, id) }
}

// writesBook matches what the runtime itself writes in a transaction behind a dedup row.
var writesBook = writesTo("INSERT INTO|UPDATE", versionTable+"|"+failureTable+"|"+parkedTable)

func ofHandler(statement string) bool {
	return !writesBook(statement) && statement != "COMMIT" && statement != "ROLLBACK"
}
