// Package orders is an order service whose events leave through an outbox.
package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Errors that a caller decides on.
var (
	ErrInvalid    = errors.New("invalid order")
	ErrOutOfStock = errors.New("out of stock")
	ErrNotFound   = errors.New("no such order")

	// ErrAgain: nothing is known to be wrong; repeat the request under the same request id.
	ErrAgain = errors.New("not settled yet, ask again with the same request id")
)

// Service takes, cancels and shows orders.
type Service struct{ db *outbox.DB }

// NewService returns a service on a database that has the tables of
// example/schema and of the outbox.
func NewService(db *outbox.DB) *Service { return &Service{db: db} }

// Request asks for an order. A repeat under the same tenant and request id is
// answered with the order of the first, whatever else it says.
type Request struct {
	TenantID  int64
	RequestID string // the caller's idempotency key
	Currency  orderevents.Currency
	Lines     []orderevents.LineItem
	Note      *string
}

// Order is an order as it is kept.
type Order struct {
	ID       int64
	TenantID int64
	Version  int64
	Status   string
	Currency string
	Total    decimal.Decimal
	EventID  uuid.UUID // of order.accepted
}

// Accept commits the order and its event together, or neither.
func (s *Service) Accept(ctx context.Context, r Request) (order Order, created bool, err error) {
	total, err := check(r)
	if err != nil {
		return Order{}, false, err
	}
	order = Order{
		TenantID: r.TenantID, Version: 1, Status: "accepted",
		Currency: string(r.Currency), Total: total, EventID: outbox.NewEventID(),
	}
	outcome, err := outbox.InTx(ctx, s.db, func(tx *outbox.Tx) error {
		if err := insertOrder(ctx, tx, r, &order); err != nil {
			return err
		}
		if err := orderevents.WriteOrderAccepted(ctx, tx, order.EventID, accepted(r, order)); err != nil {
			return err
		}
		// Last, since a popular article's row is locked from here to the commit.
		return reserveStock(ctx, tx, r.Lines)
	})
	switch {
	case outcome == outbox.Committed:
		return order, true, nil
	case outcome == outbox.Unknown, s.isRepeat(err):
		return s.settle(ctx, r)
	default:
		return Order{}, false, s.retryable(err)
	}
}

// isRepeat holds when the request id is taken: an earlier try has committed.
func (s *Service) isRepeat(err error) bool {
	info := s.db.Classify(err)
	return info.Fault == outbox.FaultDuplicate && info.Constraint == "uq_orders_request"
}

// settle finds what became of the request, by the only thing that is sure: its
// row in the database, read under a lock.
func (s *Service) settle(ctx context.Context, r Request) (Order, bool, error) {
	found, err := orderevents.ReconcileOrderAccepted(ctx, s.db, r.TenantID, r.RequestID)
	switch {
	case err != nil:
		return Order{}, false, errors.Join(ErrAgain, err)
	case !found.Found:
		return Order{}, false, ErrAgain
	}
	order, err := s.byRequest(ctx, r)
	return order, false, err
}

// retryable marks what a repeat may cure, such as a deadlock.
func (s *Service) retryable(err error) error {
	if s.db.Classify(err).Fault.EndsTransaction() {
		return errors.Join(ErrAgain, err)
	}
	return err
}

func accepted(r Request, o Order) orderevents.OrderAccepted {
	return orderevents.OrderAccepted{
		OrderID:      o.ID,
		OrderVersion: o.Version,
		TenantID:     o.TenantID,
		Lines:        r.Lines,
		Total:        orderevents.Money{Amount: o.Total, Currency: r.Currency},
		Note:         r.Note,
		AcceptedAt:   outbox.TimestampOf(time.Now()),
	}
}

// Cancel cancels an order. An order that is cancelled already stays as it is, so
// that a repeat does no harm.
func (s *Service) Cancel(ctx context.Context, tenantID, id int64, reason orderevents.OrderCancelledReason) (Order, error) {
	if !reason.Valid() {
		return Order{}, fmt.Errorf("%w: reason", ErrInvalid)
	}
	eventID := outbox.NewEventID()
	outcome, err := outbox.InTx(ctx, s.db, func(tx *outbox.Tx) error {
		order, err := lockOrder(ctx, tx, tenantID, id)
		if err != nil || order.Status == "cancelled" {
			return err
		}
		order.Version++
		if err := updateStatus(ctx, tx, order, "cancelled"); err != nil {
			return err
		}
		return orderevents.WriteOrderCancelled(ctx, tx, eventID, orderevents.OrderCancelled{
			OrderID:      order.ID,
			OrderVersion: order.Version,
			TenantID:     order.TenantID,
			Reason:       reason,
			Refund:       &orderevents.Money{Amount: order.Total, Currency: orderevents.Currency(order.Currency)},
			CancelledAt:  outbox.TimestampOf(time.Now()),
		})
	})
	switch outcome {
	case outbox.Committed:
		return s.Get(ctx, tenantID, id)
	case outbox.Unknown:
		return Order{}, errors.Join(ErrAgain, err)
	default:
		return Order{}, s.retryable(err)
	}
}

// Get returns an order.
func (s *Service) Get(ctx context.Context, tenantID, id int64) (Order, error) {
	return scanOrder(s.db.QueryRowContext(ctx, selectOrder+"WHERE tenant_id = ? AND id = ?", tenantID, id))
}

// EventState returns where the order's acceptance event is.
func (s *Service) EventState(ctx context.Context, o Order) (outbox.EventState, error) {
	return orderevents.LookupEvent(ctx, s.db, o.EventID)
}

func (s *Service) byRequest(ctx context.Context, r Request) (Order, error) {
	return scanOrder(s.db.QueryRowContext(ctx, selectOrder+"WHERE tenant_id = ? AND request_id = ?", r.TenantID, r.RequestID))
}

const selectOrder = "SELECT id, tenant_id, version, status, currency, total, acceptance_event_id FROM orders "

func scanOrder(row *sql.Row) (Order, error) {
	var o Order
	err := row.Scan(&o.ID, &o.TenantID, &o.Version, &o.Status, &o.Currency, &o.Total, &o.EventID)
	if errors.Is(err, sql.ErrNoRows) {
		return Order{}, ErrNotFound
	}
	return o, err
}

func lockOrder(ctx context.Context, tx *outbox.Tx, tenantID, id int64) (Order, error) {
	return scanOrder(tx.QueryRowContext(ctx, selectOrder+"WHERE tenant_id = ? AND id = ? FOR UPDATE", tenantID, id))
}

func updateStatus(ctx context.Context, tx *outbox.Tx, o Order, status string) error {
	_, err := tx.ExecContext(ctx, "UPDATE orders SET status = ?, version = ? WHERE id = ?", status, o.Version, o.ID)
	return err
}

func insertOrder(ctx context.Context, tx *outbox.Tx, r Request, o *Order) error {
	res, err := tx.ExecContext(ctx,
		`INSERT INTO orders (tenant_id, request_id, version, status, currency, total, acceptance_event_id, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))`,
		o.TenantID, r.RequestID, o.Version, o.Status, o.Currency, o.Total, o.EventID)
	if err != nil {
		return err
	}
	if o.ID, err = res.LastInsertId(); err != nil {
		return err
	}
	for i, line := range r.Lines {
		_, err := tx.ExecContext(ctx,
			"INSERT INTO order_line (order_id, line_no, sku, quantity, unit_price) VALUES (?, ?, ?, ?, ?)",
			o.ID, i+1, line.SKU, line.Quantity, line.UnitPrice.Amount)
		if err != nil {
			return err
		}
	}
	return nil
}

// reserveStock takes the articles in one order for all, so that two orders never
// wait for each other.
func reserveStock(ctx context.Context, tx *outbox.Tx, lines []orderevents.LineItem) error {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b orderevents.LineItem) int { return strings.Compare(a.SKU, b.SKU) })
	for _, line := range lines {
		res, err := tx.ExecContext(ctx,
			"UPDATE stock SET available = available - ? WHERE sku = ? AND available >= ?",
			line.Quantity, line.SKU, line.Quantity)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return ErrOutOfStock
		}
	}
	return nil
}
