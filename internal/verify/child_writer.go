package verify

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// request is a business operation with one event.
type request struct {
	ID      string // the idempotency key, the same for every try
	EventID uuid.UUID
	Order   int64
	Version int64  // 1 accepts the order, 2 cancels it
	Note    string // a private value
	Refused bool   // for a business reason, after the event is written
}

const tenant = 1

var errRefused = errors.New("the business refuses the request")

// write does the requests one after the other, each until it is certain that it is done.
func (c *child) write(ctx context.Context, db *outbox.DB) error {
	c.tell(line{Kind: lineReady})
	for i, r := range c.Requests {
		if i > 0 && sleep(ctx, c.Pace) != nil {
			return nil
		}
		if err := c.do(ctx, db, r); err != nil {
			return endedWell(ctx, err)
		}
	}
	c.tell(line{Kind: lineWritten})
	return nil
}

// do begins with the question whether an earlier writer has done it.
func (c *child) do(ctx context.Context, db *outbox.DB, r request) error {
	for n := 0; ; n++ {
		done, err := c.reconcile(ctx, db, r)
		if done || err != nil {
			return err
		}
		c.tell(line{Kind: lineTry, Request: r.ID, Events: []uuid.UUID{r.EventID}})
		outcome, err := outbox.InTx(ctx, db, func(tx *outbox.Tx) error { return c.try(ctx, tx, r) })
		c.tell(line{Kind: lineTold, Request: r.ID, Result: outcome.String()})
		if outcome == outbox.Committed || errors.Is(err, errRefused) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause is between two looks at what tells of no change.
func pause(ctx context.Context) error { return sleep(ctx, 50*time.Millisecond) }

func (c *child) reconcile(ctx context.Context, db *outbox.DB, r request) (found bool, err error) {
	for {
		result, err := r.reconcile(ctx, db)
		if err == nil {
			c.tell(line{Kind: lineReconciled, Request: r.ID, Yes: result.Found})
			return result.Found, nil
		}
		if err := pause(ctx); err != nil {
			return false, err
		}
	}
}

func (r request) reconcile(ctx context.Context, db *outbox.DB) (outbox.Reconciled, error) {
	if r.Version == 1 {
		return orderevents.ReconcileOrderAccepted(ctx, db, tenant, r.ID)
	}
	return outbox.Reconcile(ctx, db, func(ctx context.Context, tx outbox.Transaction) (found outbox.Reconciled, err error) {
		rows, err := tx.QueryContext(ctx, "SELECT event_id FROM cancellation WHERE request_id = ? LOCK IN SHARE MODE", r.ID)
		if err != nil {
			return found, err
		}
		defer rows.Close()
		found.Found = rows.Next()
		return found, rows.Err()
	})
}

// stockSKU is the one article.
const stockSKU = "article"

// try is the transaction: the business change, the event, and what locks a popular row last.
func (c *child) try(ctx context.Context, tx *outbox.Tx, r request) error {
	var err error
	if r.Version == 1 {
		err = c.accept(ctx, tx, r)
	} else {
		err = c.cancel(ctx, tx, r)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE stock SET available = available - 1 WHERE sku = ?", stockSKU)
	}
	if err == nil && r.Refused {
		err = errRefused
	}
	return err
}

func (c *child) accept(ctx context.Context, tx *outbox.Tx, r request) error {
	money := orderevents.Money{Amount: decimal.RequireFromString("12.50"), Currency: orderevents.CurrencyEUR}
	_, err := tx.ExecContext(ctx, `INSERT INTO orders (id, tenant_id, request_id, version, status, currency, total, acceptance_event_id, created_at)
		VALUES (?, ?, ?, 1, 'accepted', ?, ?, ?, UTC_TIMESTAMP(6))`, r.Order, tenant, r.ID, money.Currency, money.Amount, r.EventID)
	if err != nil {
		return err
	}
	event := orderevents.OrderAccepted{
		OrderID: r.Order, OrderVersion: 1, TenantID: tenant, Total: money, Note: &r.Note, AcceptedAt: outbox.TimestampOf(time.Now()),
		Lines: []orderevents.LineItem{{SKU: stockSKU, Quantity: 1, UnitPrice: money}},
	}
	if err := c.hands(r, orderevents.EventTypeOrderAccepted, event); err != nil {
		return err
	}
	return orderevents.WriteOrderAccepted(ctx, tx, r.EventID, event)
}

func (c *child) cancel(ctx context.Context, tx *outbox.Tx, r request) error {
	for _, statement := range []string{
		"UPDATE orders SET status = 'cancelled', version = 2 WHERE id = ?",
		"INSERT INTO cancellation (order_id, request_id, event_id) VALUES (?, ?, ?)",
	} {
		args := []any{r.Order, r.ID, r.EventID}
		if statement[0] == 'U' {
			args = args[:1]
		}
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	event := orderevents.OrderCancelled{
		OrderID: r.Order, OrderVersion: 2, TenantID: tenant,
		Reason: orderevents.OrderCancelledReasonCustomer, CancelledAt: outbox.TimestampOf(time.Now()),
	}
	if err := c.hands(r, orderevents.EventTypeOrderCancelled, event); err != nil {
		return err
	}
	return orderevents.WriteOrderCancelled(ctx, tx, r.EventID, event)
}

// hands tells what is about to be written.
func (c *child) hands(r request, eventType string, event any) error {
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	c.tell(line{
		Kind: lineWrite, Events: []uuid.UUID{r.EventID}, Type: eventType,
		Aggregate: aggregate("order", strconv.FormatInt(r.Order, 10)), Version: r.Version, Payload: payload,
	})
	return nil
}

func aggregate(typ, id string) string { return typ + "/" + id }
