package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// facts is all that is judged: what the clients were told, what the database and
// the stream hold at the end, and what was seen on the way.
type facts struct {
	answers *answers
	missing []string // what drain waited for in vain

	orders    []orderRow
	events    []eventRow
	stream    []streamMessage
	jobs      []jobRow
	dedup     map[string][]string // event ids by consumer
	sales     map[salesKey]salesRow
	consumers map[string]*consumerFacts

	old              oldRows
	relayDeath       relayDeath
	consumerDeath    consumerDeath
	blocked          blockedTenantFacts
	foreignKeyErrors int64
	parked           []parkedFacts
	redrives         outbox.ConsumerStats
}

// parkedFacts is an event that a consumer gave up on, and how its redrive ended.
type parkedFacts struct {
	event, kind string
	attempts    int
	redriven    outbox.Handling
}

type orderRow struct {
	ID       int64
	Key      requestKey
	Status   string
	Currency string
	Total    decimal.Decimal
	EventID  string
}

type eventRow struct {
	ID        string
	Type      string
	OrderID   int64
	Tenant    int64
	State     string
	Published time.Time // by the database's clock
	Day       string    // of acceptance; empty for another event
}

type streamMessage struct {
	EventID, Type string
	Order         string
	Version       int64
}

type jobRow struct {
	EventID string
	Tenant  int64
	Kind    string
}

type salesKey struct {
	Tenant   int64
	Day      string
	Currency string
}

type salesRow struct {
	Orders int64
	Total  decimal.Decimal
}

// consumerFacts are summed over the processes of a consumer.
type consumerFacts struct {
	outbox.ConsumerStats
	Reported bool // its process told its figures
}

// oldRows counts an event published long ago and its dedup rows.
type oldRows struct{ before, after int }

// relayDeath is what the killed relay left behind.
type relayDeath struct {
	bySIGKILL bool
	batch     []leftEvent // confirmed and not marked
}

type leftEvent struct {
	id, state    string
	heldByVictim bool
	leaseUntil   time.Time // by the database's clock
}

// consumerDeath is what the killed consumer left behind.
type consumerDeath struct {
	bySIGKILL       bool
	event           string // committed and not acknowledged
	stats           outbox.ConsumerStats
	dedupRows, jobs int // of that event, right after
}

// blockedTenantFacts are of the tenant without a channel, just before it got one.
type blockedTenantFacts struct{ published, dedupRows, jobs int }

// collect reads the database and the stream.
func (c *cast) collect(ctx context.Context, f *facts) error {
	f.foreignKeyErrors = c.seen.foreignKeyErrors.Load()
	return errors.Join(
		c.collectService(ctx, f),
		c.collectEffects(ctx, f),
		c.collectStream(ctx, f),
		c.collectConsumers(ctx, f),
	)
}

func (c *cast) collectService(ctx context.Context, f *facts) (err error) {
	f.orders, err = rows(ctx, c.stage.db, func(scan scanner) (o orderRow, err error) {
		err = scan(&o.ID, &o.Key.Tenant, &o.Key.Request, &o.Status, &o.Currency, &o.Total, &o.EventID)
		return o, err
	}, "SELECT id, tenant_id, request_id, status, currency, total, acceptance_event_id FROM orders ORDER BY id")
	if err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	f.events, err = rows(ctx, c.stage.db, func(scan scanner) (e eventRow, err error) {
		var published int64
		err = scan(&e.ID, &e.Type, &e.OrderID, &e.State, &published, &e.Tenant, &e.Day)
		e.Published = time.UnixMicro(published)
		return e, err
	}, `SELECT s.event_id, s.event_type, s.aggregate_id, s.state, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.published_at),
			JSON_UNQUOTE(JSON_EXTRACT(e.payload, '$.tenant_id')),
			COALESCE(LEFT(JSON_UNQUOTE(JSON_EXTRACT(e.payload, '$.accepted_at')), 10), '')
		FROM outbox_event_state s JOIN outbox_event e ON e.event_id = s.event_id ORDER BY s.event_id`)
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	f.old.after, err = c.stage.countOld(ctx)
	return err
}

func (c *cast) collectEffects(ctx context.Context, f *facts) (err error) {
	f.jobs, err = rows(ctx, c.stage.db, func(scan scanner) (j jobRow, err error) {
		err = scan(&j.EventID, &j.Tenant, &j.Kind)
		return j, err
	}, "SELECT event_id, tenant_id, kind FROM notification_job ORDER BY id")
	if err != nil {
		return fmt.Errorf("read the notification jobs: %w", err)
	}
	dedup, err := rows(ctx, c.stage.db, func(scan scanner) (d [2]string, err error) {
		err = scan(&d[0], &d[1])
		return d, err
	}, "SELECT consumer_name, event_id FROM consumed_event ORDER BY id")
	if err != nil {
		return fmt.Errorf("read the dedup rows: %w", err)
	}
	f.dedup = map[string][]string{}
	for _, d := range dedup {
		f.dedup[d[0]] = append(f.dedup[d[0]], d[1])
	}
	type entry struct {
		salesKey
		salesRow
	}
	sales, err := rows(ctx, c.stage.db, func(scan scanner) (e entry, err error) {
		err = scan(&e.Tenant, &e.Day, &e.Currency, &e.Orders, &e.Total)
		return e, err
	}, "SELECT tenant_id, DATE_FORMAT(day, '%Y-%m-%d'), currency, orders, total FROM sales_report")
	if err != nil {
		return fmt.Errorf("read the sales report: %w", err)
	}
	f.sales = map[salesKey]salesRow{}
	for _, e := range sales {
		f.sales[e.salesKey] = e.salesRow
	}
	return nil
}

// collectStream reads all that the broker was given, not the consumers' view of it.
func (c *cast) collectStream(ctx context.Context, f *facts) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the broker's messages were not read within 30 s"))
	defer cancel()
	if f.stream, err = c.stage.broker.messages(ctx); err != nil {
		return fmt.Errorf("read the broker's messages: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// collectConsumers adds the killed consumer's figures to those of the process
// that went on.
func (c *cast) collectConsumers(ctx context.Context, f *facts) error {
	f.consumers = map[string]*consumerFacts{}
	for _, name := range consumerNames {
		sum := &consumerFacts{}
		if stats := c.seen.stats[name].Load(); stats != nil {
			sum.ConsumerStats, sum.Reported = outbox.ConsumerStats(*stats), true
		}
		if name == orderevents.ConsumerNameNotificationPlanner {
			for _, other := range []outbox.ConsumerStats{f.consumerDeath.stats, f.redrives} {
				sum.Attempts += other.Attempts
				sum.Applied += other.Applied
				sum.Duplicates += other.Duplicates
				sum.Parked += other.Parked
				sum.Errors += other.Errors
			}
		}
		f.consumers[name] = sum
	}
	return nil
}

type scanner func(dest ...any) error

// rows reads a whole result.
func rows[T any](ctx context.Context, db *outbox.DB, read func(scanner) (T, error), query string) ([]T, error) {
	result, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var all []T
	for result.Next() {
		row, err := read(result.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, result.Err()
}
