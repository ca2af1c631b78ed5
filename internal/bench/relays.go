package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// crew is one relay or several that drain a box, each with a pool of its own.
type crew struct {
	relays     int
	batch      int
	maxBatches int           // 0 for the relay's own default
	idle       int           // connections that a pool keeps
	publisher  makePublisher // nil for one that confirms at once
	meter      *meter
	server     int // its process, or 0
}

// drained is what a crew did.
type drained struct {
	took     time.Duration // from when the events were there to the last mark
	cpu      time.Duration // of the server, meanwhile
	batches  int64         // claimed
	inFlight float64       // batches, claimed and not settled, on average
	connects int64         // connections made
	lost     int64         // events whose lease was lost before their mark
}

// drain presents the staged events to waiting relays, and withdraws them when so
// many are marked.
func (b *box) drain(ctx context.Context, c crew, events int) (drained, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(events)*time.Millisecond)
	defer cancel()
	w := newWork(events)
	relays, err := b.start(ctx, c, w)
	if err != nil {
		return drained{}, err
	}
	cpu, start := cpuTime(c.server), time.Now()
	err = b.present(ctx)
	if err == nil {
		relays.wake()
		select {
		case <-w.done:
		case <-ctx.Done():
			err = ctx.Err()
		}
		cpu = cpuTime(c.server) - cpu
	}
	err = errors.Join(err, relays.stop(), b.withdraw(context.WithoutCancel(ctx)))
	if n := w.failed.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d calls of the store failed", n)
	}
	if err != nil {
		return drained{}, fmt.Errorf("%d events are not marked: %w", w.leftNow(), err)
	}
	took := w.ended.Sub(start)
	return drained{
		took: took, cpu: cpu, batches: w.batches.Load(), inFlight: w.batchTime.Seconds() / took.Seconds(),
		connects: relays.connects(), lost: w.lost.Load(),
	}, nil
}

// started are running relays.
type started struct {
	cancel func()
	relays sync.WaitGroup
	pools  []*pool
	errs   []error
}

// start starts relays on the outbox, which is empty, and returns when they have signed on.
func (b *box) start(ctx context.Context, c crew, w *work) (*started, error) {
	running, cancel := context.WithCancel(ctx)
	s := &started{cancel: cancel, errs: make([]error, c.relays)}
	for i := range c.relays {
		p, err := openPool(b.cfg, c.idle, c.meter)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.pools = append(s.pools, p)
		relay, end, err := b.newRelay(ctx, c, p.DB, w.observer())
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.relays.Go(func() {
			defer end()
			s.errs[i] = relay.Run(running)
			w.lost.Add(relay.Stats().Lost)
		})
	}
	if err := b.awaitRelays(ctx, c.relays); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *started) wake() {
	for _, p := range s.pools {
		p.Wake()
	}
}

// stop stops the relays and returns what ended them before.
func (s *started) stop() error {
	s.cancel()
	s.relays.Wait()
	for _, p := range s.pools {
		_ = p.Close()
	}
	return errors.Join(s.errs...)
}

func (s *started) connects() (n int64) {
	for _, p := range s.pools {
		n += p.connects.Load()
	}
	return n
}

// newRelay makes a relay of the box's events, and a function that ends its publisher.
func (b *box) newRelay(ctx context.Context, c crew, db *outbox.DB, observer *outbox.Observer) (*outbox.Relay, func(), error) {
	publish := c.publisher
	if publish == nil {
		publish = atOnce
	}
	publisher, end, err := publish(ctx, b.kind.byLane)
	if err != nil {
		return nil, nil, err
	}
	relay, err := outbox.NewRelay(b.kind.newStore(db), publisher, &outbox.RelayConfig{
		BatchSize:  c.batch,
		MaxBatches: c.maxBatches,
		Logger:     warnings(),
		Observer:   observer,
	})
	if err != nil {
		end()
	}
	return relay, end, err
}

func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// awaitRelays returns when the relays have signed on.
func (b *box) awaitRelays(ctx context.Context, want int) error {
	for {
		var n int
		err := b.admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_relay WHERE alive_until > UTC_TIMESTAMP(6)").Scan(&n)
		if err != nil {
			return err
		}
		if n == want {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// work is what relays have to do.
type work struct {
	done chan struct{}

	mu        sync.Mutex
	left      int64
	ended     time.Time
	claimed   map[string]time.Time // batches in flight, by their first event
	batchTime time.Duration        // that batches were in flight, added up

	batches, lost, failed atomic.Int64
}

func newWork(events int) *work {
	return &work{left: int64(events), done: make(chan struct{}), claimed: map[string]time.Time{}}
}

func (w *work) leftNow() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left
}

func (w *work) observer() *outbox.Observer {
	return &outbox.Observer{
		Claimed: func(c outbox.Claimed) {
			w.batches.Add(1)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claimed[c.Events[0].Key] = time.Now()
		},
		StoreFailed: func(outbox.StoreFailed) { w.failed.Add(1) },
		Settled: func(s outbox.Settled) {
			now := time.Now()
			w.mu.Lock()
			defer w.mu.Unlock()
			if began, ok := w.claimed[s.Outcomes[0].Key]; ok {
				w.batchTime += now.Sub(began)
				delete(w.claimed, s.Outcomes[0].Key)
			}
			before := w.left
			if w.left -= int64(s.Published); w.left <= 0 && before > 0 {
				w.ended = now
				close(w.done)
			}
		},
	}
}
