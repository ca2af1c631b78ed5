package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// The defaults of a consumer.
const (
	defaultHandleTimeout = 20 * time.Second
	defaultAttempts      = 10
	defaultBackoff       = time.Second
	defaultMaxBackoff    = 5 * time.Minute
)

// ConsumerConfig has a consumer's settings. The zero value, and nil, are good:
// what isn't set is as in events.yaml, and no number or duration below zero is a setting.
type ConsumerConfig struct {
	// Isolation of the transaction in which the handler runs. Defaults to READ
	// COMMITTED, under which a redelivery that races takes no gap locks.
	Isolation sql.IsolationLevel

	// Concurrency is how many events one subscription handles at a time; those of
	// one aggregate never. Defaults to `concurrency` of events.yaml, 1 there.
	Concurrency int

	// Timeout is how long the transaction of one event may take: at its end the
	// handler's context ends, and the attempt has failed. Defaults to `timeout`
	// of events.yaml, 20 s there.
	Timeout time.Duration

	// Attempts is how often an event may fail before it is parked. Defaults to
	// `retry.attempts` of events.yaml, 10 there.
	Attempts int

	// Backoff is the wait after the first failed attempt. It doubles with each
	// further one up to MaxBackoff, less a random part of up to a half. Default to
	// `retry.backoff` and `retry.max_backoff`, 1 s and 5 min there.
	Backoff, MaxBackoff time.Duration

	// Logger gets the stacks of panics, and what is parked. Defaults to slog.Default().
	Logger *slog.Logger

	// Observer is told of everything as it happens. Defaults to none.
	Observer *ConsumerObserver
}

// ConsumerSpec is what generated code knows of a consumer.
type ConsumerSpec struct {
	Name string

	// Constraint is the unique constraint of the dedup table. A duplicate key
	// counts as a duplicate event only when the server names exactly this one.
	Constraint string

	// Inbox has the statements of the consumer's tables.
	Inbox Inbox

	// Routes has a route for each event type that the consumer handles.
	Routes map[string]Route

	// DropStale skips an event whose aggregate's version is below the one last
	// applied (`stale: drop`).
	DropStale bool

	// Defaults are events.yaml's. What is zero in it has the runtime's default.
	Defaults ConsumerConfig
}

// Consumer applies events once each. It implements [Handler].
type Consumer struct {
	db        *DB
	spec      ConsumerSpec
	cfg       ConsumerConfig
	stats     consumerCounters
	observing *consumerObserving
	pulse     consumerPulse
}

var _ Handler = (*Consumer)(nil)

// NewConsumer is called by generated constructors.
func NewConsumer(db *DB, spec ConsumerSpec, cfg *ConsumerConfig) *Consumer {
	if cfg == nil {
		cfg = &ConsumerConfig{}
	}
	c := &Consumer{db: db, spec: spec, cfg: cfg.withDefaults(spec.Defaults)}
	c.observing = newConsumerObserving(c.cfg.Observer, c.cfg.Logger)
	return c
}

func (c ConsumerConfig) withDefaults(d ConsumerConfig) ConsumerConfig {
	firstOf(&c.Isolation, d.Isolation, sql.LevelReadCommitted)
	firstAboveZero(&c.Concurrency, d.Concurrency, 1)
	firstAboveZero(&c.Timeout, d.Timeout, defaultHandleTimeout)
	firstAboveZero(&c.Attempts, d.Attempts, defaultAttempts)
	firstAboveZero(&c.Backoff, d.Backoff, defaultBackoff)
	firstAboveZero(&c.MaxBackoff, d.MaxBackoff, defaultMaxBackoff)
	firstOf(&c.Logger, d.Logger, slog.Default())
	firstOf(&c.Observer, d.Observer)
	return c
}

// firstOf sets v, unless it is set, to the first of the others that is.
func firstOf[T comparable](v *T, others ...T) {
	var zero T
	for _, other := range others {
		if *v != zero {
			return
		}
		*v = other
	}
}

// firstAboveZero is firstOf for what is set when it is above zero.
func firstAboveZero[T int | time.Duration](v *T, others ...T) {
	for i := range others {
		others[i] = max(others[i], 0)
	}
	*v = max(*v, 0)
	firstOf(v, others...)
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

// Limits implements [Handler].
func (c *Consumer) Limits() Limits {
	return Limits{Concurrency: c.cfg.Concurrency, Timeout: c.cfg.Timeout}
}

// ErrNotHandled is the reason for which an event of a type or schema version that the
// consumer doesn't know is parked. A consumer that is older than its producer
// must not lose events: when it knows them, redrive them.
var ErrNotHandled = errors.New("the consumer does not handle this event")

// Handle implements [Handler]. The dedup row is inserted first, then the handler
// runs, in one transaction; a duplicate is a 1062 that names the dedup
// constraint, and nothing else is. On any error, a [CommitUnknownError] among
// them, the message must not be acknowledged: its redelivery finds out.
//
// An attempt that fails is counted in the database, in a transaction of its own.
// An event is parked, with [Parked] and no error, when it has failed as often as it may,
// when the handler returned a [Permanent] error, and at once when its payload can't be
// read, or be upcast to the newest version, or its type or schema version is unknown. What the database is to blame for, and the
// end of ctx, is not counted. After a deadlock the transaction is repeated at once.
func (c *Consumer) Handle(ctx context.Context, e Envelope) (Handling, error) {
	c.stats.attempts.Add(1)
	if err := fault.At(ctx, fault.ConsumerDelivered); err != nil {
		return NotHandled, err
	}
	seen := c.observe(ctx, e)
	ctx = seen.begin(ContextWithTrace(ctx, e.Headers))
	end, err := c.handle(ctx, e)
	seen.end(ctx, end, err)
	return end.handling, err
}

// ending is how an event ended.
type ending struct {
	handling Handling
	parked   string // the kind, when it is Parked
}

func (c *Consumer) handle(ctx context.Context, e Envelope) (ending, error) {
	if err := checkEventID(e.ID); err != nil {
		return ending{}, err
	}
	do, kind, err := c.bind(e)
	if err != nil {
		c.logPanic(ctx, e.ID, err)
		return c.park(ctx, e, kind, err)
	}
	a := c.attempts(ctx, func(ctx context.Context, tx *Tx, a *attempt) error { return c.apply(ctx, tx, e, a, do) })
	if a.err == nil {
		return ending{handling: a.handling}, nil
	}
	return c.failed(ctx, e, a)
}

// bind finds the method for an event. With an error comes the kind under which the
// event is to be parked.
func (c *Consumer) bind(e Envelope) (do effect, kind string, err error) {
	route, ok := c.spec.Routes[e.Type]
	if !ok {
		return nil, parkedType, fmt.Errorf("%w: consumer %s, event type %q", ErrNotHandled, c.spec.Name, e.Type)
	}
	do, err = decode(route, e)
	switch {
	case errors.Is(err, ErrNotHandled):
		return nil, parkedVersion, err
	case err != nil:
		return nil, parkedPayload, err
	case c.spec.DropStale && (len(e.AggregateType) > maxVersionType || len(e.AggregateID) > maxVersionID):
		return nil, parkedPayload, errAggregateTooLong
	}
	return do, "", nil
}

// decode calls code that isn't ours: the payload's types decode themselves.
func decode(route Route, e Envelope) (do effect, err error) {
	err = guarded(func() (err error) {
		do, err = route.bind(e)
		return err
	})
	return do, err
}

// attempts is an attempt, and two more if the server rolls it back to end a
// deadlock. All of them have the time of one.
func (c *Consumer) attempts(ctx context.Context, fn func(context.Context, *Tx, *attempt) error) attempt {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	const tries = 3
	for n := 1; ; n++ {
		a := c.attempt(ctx, func(tx *Tx, a *attempt) error { return fn(ctx, tx, a) })
		if a.err == nil || n == tries || c.db.Classify(a.err).Fault != FaultDeadlock {
			return a
		}
		if !sleep(ctx, backoff(10*time.Millisecond, time.Second, n)) {
			return a
		}
	}
}
