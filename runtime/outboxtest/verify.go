package outboxtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Verify breaks things at the places where events get lost or are done twice, on your own
// events, handlers and schema: writers, relays and consumers lose all their connections
// in the middle, a lease runs out, a mark comes late, the database answers with another
// error than the one expected, also to the statements of handlers. After each injection it
// lets everything heal, and looks whether each event has had its effect once. It writes a
// record and fails the test when an invariant doesn't hold, and also when a fault did not
// really happen.
//
// The first request has no fault: what goes wrong with it is told as such, and ends the test, as does
// the first injection after which not everything comes to its end.
//
// Each writer, relay and consumer is in this process, with a pool of its own that reaches the
// database through a proxy; one that "dies" loses its connections for ever. Verify takes
// about four leases.
func Verify(t testing.TB, cfg Config) {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatalf("outboxtest.Verify: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v, err := newVerification(ctx, cfg)
	if err != nil {
		t.Fatalf("outboxtest.Verify: %v", err)
	}
	defer v.close()
	labelled(ctx, v.rec.ExperimentID, func() { err = v.run(ctx) })
	if err == nil {
		err = v.judge(ctx)
	}
	if err != nil {
		t.Fatalf("outboxtest.Verify: %v", err)
	}
	for _, problem := range v.problems() {
		t.Errorf("outboxtest.Verify: %s", problem)
	}
	if err := v.write(); err != nil {
		t.Errorf("outboxtest.Verify: %v", err)
	}
	t.Logf("outboxtest.Verify: %s, recorded in %s", v.rec.Result, cfg.Record)
}

// Request is a business operation that a client asks for, and repeats under the same ID
// until it is done.
type Request struct {
	ID      string    // unique, of 36 ASCII characters
	Number  int64     // unique, from 1 on and below 50: for a tenant or a customer of its own
	EventID uuid.UUID // for a Write that takes one; for Effects that of the event that was written
}

// verification is one call of Verify.
type verification struct {
	cfg     Config
	db      *outbox.DB // not through a proxy
	broker  *Broker    // nil with a broker of the user's
	rec     *record.Record
	log     *logBook
	ordered bool
	product string // the server's
	server  string // its version, by its own word
	threads int    // of the server's on the database, before
	started time.Time

	mu         sync.Mutex
	requests   []Request
	hist       history.History
	written    map[uuid.UUID]outbox.Envelope // what was claimed, by id
	deleted    map[uuid.UUID]bool            // marked and gone, with `keep_published: 0`
	payloads   map[eventAt][]byte            // as handlers got them
	injections []*injection
	untried    []string       // the ids of those that were not made, since the one before was stuck
	statements map[string]int // that a handler sends with its transaction, by the consumer's name
	troubles                  // why something may be stuck
	left       []string       // what was left behind, line by line
	inUse      int            // connections of a pool that nobody uses any more
}

// eventAt is an event at a consumer.
type eventAt struct {
	event    uuid.UUID
	consumer string
}

func newVerification(ctx context.Context, cfg Config) (*verification, error) {
	db, err := cfg.open(nil)
	if err != nil {
		return nil, err
	}
	v := &verification{
		cfg: cfg, db: db, log: new(logBook), started: time.Now(), rec: &record.Record{ExperimentID: uuid.NewString()},
		written: map[uuid.UUID]outbox.Envelope{}, deleted: map[uuid.UUID]bool{}, payloads: map[eventAt][]byte{},
		statements: map[string]int{}, troubles: newTroubles(),
		hist: history.History{
			Requests: []history.Request{}, Published: []history.Publish{}, Messages: []history.Message{},
			Marks: []history.Mark{}, Deliveries: []history.Delivery{}, Acks: []history.Ack{}, Faults: []history.Fault{},
		},
	}
	if cfg.Publisher == nil {
		v.broker = NewBroker(BrokerConfig{Logger: v.log.logger()})
		v.cfg.Publisher, v.cfg.Subscribe = v.broker, v.broker.Subscribe
	}
	if err := v.prepare(ctx); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (v *verification) close() {
	if v.broker != nil {
		v.broker.Close()
	}
	_ = v.db.Close()
}

func (v *verification) run(ctx context.Context) error {
	steps := v.steps()
	for n, s := range steps {
		i, err := v.inject(ctx, s)
		if err != nil {
			return err
		}
		if err := s.run(i, ctx); err != nil {
			return err
		}
		if i.stuck {
			for _, rest := range steps[n+1:] {
				v.untried = append(v.untried, rest.ID)
				v.rec.Inconclusive = append(v.rec.Inconclusive, record.NotMade(rest.ID))
			}
			return nil
		}
	}
	return nil
}
