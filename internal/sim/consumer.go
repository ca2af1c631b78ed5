package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	errCut       = errors.New("the connection was cut")
	errPermanent = errors.New("never")
)

// The consumers' statements. A handler takes a slot for a moment: a unique key whose
// values look like the dedup table's constraint.
const (
	takeSlot = `-- name: TakeSlot :exec
INSERT INTO effect_slot (slot) VALUES (?)`
	insertEffect = `-- name: InsertEffect :exec
INSERT INTO effect (consumer, event_id, payload) VALUES (?, ?, ?)`
	freeSlot = `-- name: FreeSlot :exec
DELETE FROM effect_slot WHERE slot = ?`
)

func (w *world) runConsumer(a *actor) {
	h := &handler{w: w, a: a}
	h.Consumer = w.variant.consumer(a.role, a.db, h.effect, &outbox.ConsumerConfig{
		Concurrency: 4, Timeout: 1500 * time.Millisecond, Attempts: 1000,
		Backoff: 200 * time.Millisecond, MaxBackoff: time.Second, Logger: w.log,
	})
	_ = w.broker.Subscribe(a.ctx, h) // nil, or the broker is closed
}

// handler is a consumer that tells the recorder.
type handler struct {
	*outbox.Consumer
	w *world
	a *actor
}

// handleNote is of an event's handling.
type handleNote string

// Tag tells what is done at once by one process apart.
func (n handleNote) Tag() string { return "handle " + string(n) }

// Handle implements outbox.Handler.
func (h *handler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	ctx = fakemysql.WithNote(ctx, handleNote(e.ID.String()))
	handling, err := h.Consumer.Handle(ctx, e)
	if h.a.isDead() {
		return handling, err
	}
	result := handling.String()
	if err != nil {
		result = "error"
	}
	h.w.rec.delivered(history.Delivery{EventID: e.ID, Consumer: h.Name(), Result: result})
	return handling, err
}

func (h *handler) effect(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	if h.w.fate(e.ID) == Permanent {
		return outbox.Permanent(errPermanent)
	}
	slot := fmt.Sprintf("%s/%s for key 'consumed_event.uq_consumed_event_identity'", h.Name(), e.ID)
	if err := h.take(ctx, tx, e, slot); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertEffect, h.Name(), e.ID.String(), string(e.Data)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, freeSlot, slot)
	return err
}

func (h *handler) take(ctx context.Context, tx *outbox.Tx, e outbox.Envelope, slot string) error {
	_, err := tx.ExecContext(ctx, takeSlot, slot)
	if err == nil && h.w.slotTaken(e) {
		return &mysql.MySQLError{Number: 1062, Message: fmt.Sprintf("Duplicate entry '%s' for key 'effect_slot.PRIMARY'", slot)}
	}
	return err
}

func (w *world) slotTaken(e outbox.Envelope) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.ids[e.ID]
	return ok && w.slots[i]
}
