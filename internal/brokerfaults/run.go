package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// settings are those of a run.
type settings struct {
	events int
	lease  time.Duration // the relays'; what follows from it is below
	drain  time.Duration // how long the rest may take when the fault is over
}

// publishTimeout is a relay's, ackTimeout its publisher's.
func (s settings) publishTimeout() time.Duration { return s.lease * 3 / 4 }
func (s settings) ackTimeout() time.Duration     { return s.lease / 2 }

const relays = 2

// broker is one that can be broken. The relays reach it through a proxy.
type broker interface {
	scenarios() []scenario           // also before start
	start(ctx context.Context) error // returns when it takes connections; close it even after an error
	ensure(ctx context.Context, t outbox.Topology) error
	publisher(p *proxy, t outbox.Topology, ack time.Duration) (out outbox.Publisher, closeIt func(), err error)
	kill() error                       // as kill -9 does
	restart(ctx context.Context) error // on the same data and addresses, after a kill
	holdings(ctx context.Context, t outbox.Topology) ([]holding, error)
	close()
}

// scenario is a fault and what is expected of it.
type scenario struct {
	name        string
	topology    outbox.Topology
	cancelEvery int // every so-many-th event is order.cancelled, in small runs more; 0 for none
	want        expectation

	// script breaks the broker and mends it, while the relays run.
	script func(ctx context.Context, r *run) error
}

// run is a scenario under way.
type run struct {
	settings
	scenario
	broker   broker
	db       *outbox.DB
	proxy    *proxy
	gate     *gate
	record   *record
	evidence map[string]int
}

// report is what a run saw.
type report struct {
	*tally
	Events int
	record *record
	Took   time.Duration
}

// String is a line for people.
func (r *report) String() string {
	f := r.record.all.Failures
	return fmt.Sprintf("%d events, %d published, %d dead; %d messages, %d duplicates of at most %d, %d missed; "+
		"answers: %d confirmed, %d unknown, %d unavailable, %d failed, %d rejected, %d held back; causes %v, %d pauses; %d confirmed when the fault began, %d when it was over; %v",
		r.Events, r.Published, r.Dead, r.Messages, r.Duplicates, r.MostDuplicates, r.Missed,
		r.record.all.Confirmed, f[outbox.FailureUnknown], f[outbox.FailureUnavailable], f[outbox.FailureFailed],
		f[outbox.FailureRejected], f[outbox.FailureHeldBack], r.record.seen, r.record.pauses, max(r.record.before, 0), r.record.after,
		r.Took.Round(time.Second/10))
}

// runScenario commits events and relays them while the broker, which has been started,
// has its fault. The database has the outbox's tables.
func runScenario(ctx context.Context, db *outbox.DB, b broker, sc scenario, s settings) (*report, error) {
	begun := time.Now()
	r := &run{
		settings: s, scenario: sc, broker: b, db: db,
		proxy: newProxy(), gate: &gate{}, record: newRecord(sc.want.causes), evidence: make(map[string]int),
	}
	defer r.proxy.close()
	all := newEvents(s.events, min(sc.cancelEvery, s.events/8))
	if err := b.ensure(ctx, sc.topology); err != nil {
		return nil, err
	}
	if err := write(ctx, db, all); err != nil {
		return nil, err
	}
	stats, err := r.relay(ctx)
	h := &history{events: all, record: r.record, stats: stats, evidence: r.evidence}
	if err != nil { // perhaps for what the publishers said
		t := &tally{}
		t.checkFailures(h, sc.want)
		return nil, errors.Join(err, t.err())
	}
	if h.rows, err = readRows(ctx, db); err != nil {
		return nil, err
	}
	if h.holdings, err = b.holdings(ctx, sc.topology); err != nil {
		return nil, fmt.Errorf("read the broker back: %w", err)
	}
	out := &report{tally: judge(h, sc.want), Events: len(all), record: r.record, Took: time.Since(begun)}
	return out, out.err()
}

// relay runs the relays and the script, and ends when nothing waits any more.
func (r *run) relay(ctx context.Context) (outbox.RelayStats, error) {
	relaying, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	all := make([]*outbox.Relay, relays)
	ended := make([]error, relays)
	end := func() error {
		stop()
		running.Wait()
		return errors.Join(ended...)
	}
	for i := range all {
		publisher, closePublisher, err := r.broker.publisher(r.proxy, r.topology, r.ackTimeout())
		if err != nil {
			return outbox.RelayStats{}, errors.Join(err, end())
		}
		defer closePublisher()
		if all[i], err = outbox.NewRelay(orderevents.NewStore(r.db), gated{publisher, r.gate, r.record}, r.relayConfig()); err != nil {
			return outbox.RelayStats{}, errors.Join(err, end())
		}
		running.Go(func() { ended[i] = all[i].Run(relaying) })
	}
	err := r.script(ctx, r)
	if err == nil {
		err = awaitDrained(ctx, r.db, r.drain)
	}
	err = errors.Join(err, end())
	var sum outbox.RelayStats
	for _, relay := range all {
		s := relay.Stats()
		sum.Confirmed += s.Confirmed
		sum.Unknown += s.Unknown
		sum.Retried += s.Retried
		sum.Dead += s.Dead
		sum.OutOfOrder += s.OutOfOrder
	}
	return sum, err
}

func (r *run) relayConfig() *outbox.RelayConfig {
	return &outbox.RelayConfig{
		// So small that most is left when the gate has shut.
		BatchSize: max(r.events/100, 5), Lease: r.lease, PublishTimeout: r.publishTimeout(),
		PollInterval: 50 * time.Millisecond, OutageBackoffMax: time.Second,
		Logger: slog.New(slog.DiscardHandler), Observer: r.record.observer(),
	}
}

func readRows(ctx context.Context, db *outbox.DB) (map[uuid.UUID]row, error) {
	rows, err := db.QueryContext(ctx,
		"SELECT event_id, state, attempts, COALESCE(last_error_kind, ''), COALESCE(last_error, '') FROM outbox_event_state")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[uuid.UUID]row)
	for rows.Next() {
		var id uuid.UUID
		var r row
		if err := rows.Scan(&id, &r.state, &r.attempts, &r.kind, &r.reason); err != nil {
			return nil, err
		}
		all[id] = r
	}
	return all, rows.Err()
}
