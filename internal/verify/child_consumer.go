package verify

import (
	"context"

	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func (c *child) consume(ctx context.Context, db *outbox.DB) error {
	carrier, err := c.Place.open()
	if err != nil {
		return err
	}
	defer carrier.close()
	consumer := orderevents.NewNotificationPlanner(db, planner{}, &upcasts.Upcaster{}, &outbox.ConsumerConfig{
		Attempts: 100, // an event that is parked would be out of the experiment
		Logger:   c.log,
	})
	c.tell(line{Kind: lineReady})
	return carrier.subscribe(ctx, toldHandler{consumer, c, db}, c.log)
}

// planner is the example's handler. It also writes down what it was given.
type planner struct{ notificationplanner.Handler }

func (p planner) HandleOrderAccepted(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderAccepted]) error {
	if err := p.Handler.HandleOrderAccepted(ctx, tx, m); err != nil {
		return err
	}
	return keep(ctx, tx, m.Envelope)
}

func (p planner) HandleOrderCancelled(ctx context.Context, tx *outbox.Tx, m outbox.Message[orderevents.OrderCancelled]) error {
	if err := p.Handler.HandleOrderCancelled(ctx, tx, m); err != nil {
		return err
	}
	return keep(ctx, tx, m.Envelope)
}

func keep(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO handled_payload (event_id, payload) VALUES (?, ?)", e.ID, []byte(e.Data))
	return err
}

// toldHandler tells what it is given, and, when the subscriber may acknowledge it, whether
// the database has its dedup row.
type toldHandler struct {
	outbox.Handler
	child *child
	db    *outbox.DB
}

func (h toldHandler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	n := h.child.number()
	h.child.tell(line{Kind: lineDelivered, N: n, Events: eventID(e)})
	handling, err := h.Handler.Handle(ctx, e)
	told := line{Kind: lineHandled, N: n, Result: handling.String()}
	if err != nil {
		told.Result = "error"
	} else {
		told.Yes = h.hasDedup(ctx, e)
	}
	h.child.tell(told)
	return handling, err
}

// hasDedup asks until it has an answer: the database may be away just now, and what was
// there stays.
func (h toldHandler) hasDedup(ctx context.Context, e outbox.Envelope) (there bool) {
	for {
		var n int
		err := h.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM consumed_event WHERE consumer_name = ? AND event_id = ?",
			h.Name(), e.ID).Scan(&n)
		if err == nil || pause(ctx) != nil {
			return n > 0
		}
	}
}
