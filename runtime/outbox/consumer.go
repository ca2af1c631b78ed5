package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
)

// Handler is a consumer as a broker's subscriber sees it. The subscriber
// acknowledges a message when Handle returns a nil error, and only then.
type Handler interface {
	// Name is the consumer's name, constant for all time: it is half of the dedup row's identity.
	Name() string
	// EventTypes are the events that it handles, sorted.
	EventTypes() []string
	// Handle applies the event unless it was applied before. It returns after the commit.
	Handle(ctx context.Context, e Envelope) (Handling, error)
}

// Handling is how a message ended that may be acknowledged.
type Handling int

// The endings.
const (
	NotHandled Handling = iota // with an error
	Applied                    // dedup row and effect were committed together
	Duplicate                  // the dedup row was there already; nothing was changed
)

func (h Handling) String() string {
	switch h {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	default:
		return "not handled"
	}
}

// ConsumerConfig has a consumer's settings. The zero value, and nil, are good.
type ConsumerConfig struct {
	// Isolation of the transaction in which the handler runs. Defaults to READ
	// COMMITTED, under which a redelivery that races takes no gap locks.
	Isolation sql.IsolationLevel
}

// ConsumerSpec is what generated code knows of a consumer.
type ConsumerSpec struct {
	Name string

	// Constraint is the unique constraint of the dedup table. A duplicate key
	// counts as a duplicate event only when the server names exactly this one.
	Constraint string

	// InsertDedup writes the dedup row.
	InsertDedup func(ctx context.Context, tx *Tx, consumer, eventID string) error

	// Routes has a route for each event type that the consumer handles.
	Routes map[string]Route
}

// Consumer applies events once each. It implements [Handler].
type Consumer struct {
	db        *DB
	spec      ConsumerSpec
	isolation sql.IsolationLevel
	stats     consumerCounters
}

// NewConsumer is called by generated constructors.
func NewConsumer(db *DB, spec ConsumerSpec, cfg *ConsumerConfig) *Consumer {
	c := &Consumer{db: db, spec: spec, isolation: sql.LevelReadCommitted}
	if cfg != nil && cfg.Isolation != sql.LevelDefault {
		c.isolation = cfg.Isolation
	}
	return c
}

// Name implements [Handler].
func (c *Consumer) Name() string { return c.spec.Name }

// EventTypes implements [Handler].
func (c *Consumer) EventTypes() []string {
	types := make([]string, 0, len(c.spec.Routes))
	for t := range c.spec.Routes {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// ErrNotHandled is returned for an event of a type or schema version that the
// consumer doesn't know. The message is not acknowledged: a consumer that is
// older than its producer must not lose events.
var ErrNotHandled = errors.New("the consumer does not handle this event")

// Handle implements [Handler]. The dedup row is inserted first, then the handler
// runs, in one transaction; a duplicate is a 1062 that names the dedup
// constraint, and nothing else is. On any error, a [CommitUnknownError] among
// them, the message must not be acknowledged: its redelivery finds out.
func (c *Consumer) Handle(ctx context.Context, e Envelope) (Handling, error) {
	c.stats.attempts.Add(1)
	handling, err := c.handle(ctx, e)
	switch {
	case err != nil:
		c.stats.errors.Add(1)
	case handling == Applied:
		c.stats.applied.Add(1)
	case handling == Duplicate:
		c.stats.duplicates.Add(1)
	}
	return handling, err
}

func (c *Consumer) handle(ctx context.Context, e Envelope) (Handling, error) {
	route, ok := c.spec.Routes[e.Type]
	if !ok {
		return NotHandled, fmt.Errorf("%w: consumer %s, event type %q", ErrNotHandled, c.spec.Name, e.Type)
	}
	if err := checkEventID(e.ID); err != nil {
		return NotHandled, err
	}
	effect, err := route.bind(e)
	if err != nil {
		return NotHandled, c.failed(e, err)
	}

	duplicate := false
	_, err = InTxWith(ctx, c.db, &sql.TxOptions{Isolation: c.isolation}, func(tx *Tx) error {
		if err := c.spec.InsertDedup(ctx, tx, c.spec.Name, e.ID.String()); err != nil {
			duplicate = c.isDuplicate(err)
			return fmt.Errorf("insert dedup row: %w", err)
		}
		return effect(ctx, tx)
	})
	switch {
	case duplicate:
		return Duplicate, nil
	case err != nil:
		return NotHandled, c.failed(e, err)
	default:
		return Applied, nil
	}
}

// HandlingError is why a consumer has not handled an event. Its text is fit for
// a log: of an error that came from the database's server it gives the number
// and the constraint, for the server's own words quote values (MySQL 1062, 1366),
// and of database/sql's scan errors the column. What a handler says in its own
// words is passed on. Unwrap gives the whole of it.
type HandlingError struct {
	Consumer string
	EventID  uuid.UUID
	Cause    error

	text string
}

func (e *HandlingError) Error() string { return e.text }

func (e *HandlingError) Unwrap() error { return e.Cause }

func (c *Consumer) failed(e Envelope, cause error) error {
	reason := cause.Error()
	// database/sql quotes the value that it could not scan after the column's name.
	if before, _, ok := strings.Cut(reason, ": converting driver.Value"); ok {
		reason = before
	}
	if info := c.db.Classify(cause); info.Code != 0 {
		reason = fmt.Sprintf("database error %d", info.Code)
		if info.Constraint != "" {
			reason += ", constraint " + info.Constraint
		}
	}
	return &HandlingError{
		Consumer: c.spec.Name, EventID: e.ID, Cause: cause,
		text: fmt.Sprintf("consumer %s, event %s: %s", c.spec.Name, e.ID, reason),
	}
}

// isDuplicate holds for one error only. Another constraint's 1062, an unreadable
// one, or a foreign key's error says nothing about whether the event was applied.
func (c *Consumer) isDuplicate(err error) bool {
	info := c.db.Classify(err)
	return info.Fault == FaultDuplicate && info.Constraint == c.spec.Constraint
}

// Route leads from an event type to a handler method. Make one with [On].
type Route struct {
	bind func(Envelope) (func(context.Context, *Tx) error, error)
}

// On makes the route of one event type: a message is decoded by its schema
// version, before any transaction is open, and handed to handle inside one.
func On[T any](
	decode func(schemaVersion int, data []byte) (T, error),
	handle func(context.Context, *Tx, Message[T]) error,
) Route {
	return Route{bind: func(e Envelope) (func(context.Context, *Tx) error, error) {
		payload, err := decode(e.SchemaVersion, e.Data)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx *Tx) error {
			return handle(ctx, tx, Message[T]{Envelope: e, Payload: payload})
		}, nil
	}}
}

// ConsumerStats counts what a consumer did since it was made.
type ConsumerStats struct {
	Attempts   int64 // calls of Handle
	Applied    int64
	Duplicates int64 // absorbed by the dedup row
	Errors     int64 // not acknowledged
}

type consumerCounters struct{ attempts, applied, duplicates, errors atomic.Int64 }

// Stats returns the counts so far.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{
		Attempts:   c.stats.attempts.Load(),
		Applied:    c.stats.applied.Load(),
		Duplicates: c.stats.duplicates.Load(),
		Errors:     c.stats.errors.Load(),
	}
}
