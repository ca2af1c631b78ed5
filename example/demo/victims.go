package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The victims are this very program, started again in a role. They are wired as
// the example's own programs are, with one decorator that ends the process at
// the worst moment, by SIGKILL: no defer runs, nothing is flushed or said goodbye to.
const (
	roleVar        = "OUTBOXGEN_DEMO_ROLE"
	relayVictim    = "relay-victim"
	consumerVictim = "consumer-victim"
)

// The victims die when they have done some work: the relay in its second batch,
// or a later one if that is a small one, the consumer at its twentieth message.
const (
	fatalBatch      = 2
	fatalBatchSize  = 10
	fatalBatchAtAll = 12 // of whatever size
	fatalMessage    = 20
)

// lastWords is what a victim writes on its standard output before it dies, in one line.
type lastWords struct {
	Victim string `json:"victim"`
	// Events are those that the broker has confirmed and nobody has marked, or the
	// one that is committed and not acknowledged.
	Events []string `json:"events"`
	// Stats are the consumer's.
	Stats outbox.ConsumerStats `json:"stats"`
}

// die says the last words and kills the process.
func die(w lastWords) {
	line, err := json.Marshal(w)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		return // the demo is told of a victim that lives on by its timeout
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}

func runVictim(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	run := map[string]func(context.Context, *outbox.DB, broker.Broker) error{
		relayVictim:    runRelayVictim,
		consumerVictim: runConsumerVictim,
	}[role]
	if run == nil {
		fmt.Fprintf(os.Stderr, "%s: no such role\n", role)
		return 2
	}
	if err := connect(ctx, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func connect(ctx context.Context, run func(context.Context, *outbox.DB, broker.Broker) error) error {
	db, err := mysqldb.Open(os.Getenv("ORDERS_DSN"))
	if err != nil {
		return err
	}
	defer db.Close()
	carrier, err := broker.Open(os.Getenv("ORDERS_BROKER_URL"))
	if err != nil {
		return err
	}
	defer carrier.Close()
	return run(ctx, db, carrier)
}

// runRelayVictim is example/cmd/relay without a purger and with a fatalPublisher.
func runRelayVictim(ctx context.Context, db *outbox.DB, carrier broker.Broker) error {
	publisher, err := carrier.Publisher()
	if err != nil {
		return err
	}
	fatal := &fatalPublisher{inner: publisher, marked: make(chan struct{})}
	relay, err := outbox.NewRelay(orderevents.NewStore(db), fatal, &outbox.RelayConfig{
		Lease:          relayLease,
		PublishTimeout: 5 * time.Second,
		Observer: &outbox.Observer{Settled: func(s outbox.Settled) {
			if s.Published > 0 {
				fatal.once.Do(func() { close(fatal.marked) })
			}
		}},
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// relayLease is example/cmd/relay's.
const relayLease = 15 * time.Second

// slowness is how long the relay's broker seems to take, so that events gather
// meanwhile for a batch of some size.
const slowness = 200 * time.Millisecond

// fatalPublisher kills its process between the broker's confirm and the mark, once
// another batch was marked.
type fatalPublisher struct {
	inner  outbox.Publisher
	marked chan struct{} // closed when a batch was
	once   sync.Once

	mu      sync.Mutex // several batches are in flight
	batches int        // confirmed
}

// Publish implements outbox.Publisher.
func (p *fatalPublisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	time.Sleep(slowness)
	results := p.inner.Publish(ctx, messages)
	for _, err := range results {
		if err != nil {
			return results
		}
	}
	p.mu.Lock() // kept for good by the one that is fatal: what others have confirmed isn't marked either
	defer p.mu.Unlock()
	p.batches++
	if p.batches >= fatalBatch && len(messages) >= fatalBatchSize || p.batches >= fatalBatchAtAll {
		select {
		case <-p.marked:
		case <-ctx.Done():
			return results
		}
		words := lastWords{Victim: relayVictim}
		for _, m := range messages {
			words.Events = append(words.Events, m.ID.String())
		}
		die(words)
	}
	return results
}

// runConsumerVictim is the planner's half of example/cmd/consumers with a fatalHandler,
// and one message at a time, so that its last words count everything that it did.
func runConsumerVictim(ctx context.Context, db *outbox.DB, carrier broker.Broker) error {
	planner := orderevents.NewNotificationPlanner(db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, &outbox.ConsumerConfig{Concurrency: 1})
	return carrier.Subscribe(ctx, &fatalHandler{Consumer: planner}, nil)
}

// fatalHandler kills its process between the consumer's commit and the acknowledgement.
type fatalHandler struct {
	*outbox.Consumer

	mu sync.Mutex // one message at a time, whatever the subscriber does
}

// Handle implements outbox.Handler.
func (h *fatalHandler) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	handling, err := h.Consumer.Handle(ctx, e)
	if stats := h.Stats(); handling == outbox.Applied && stats.Applied >= fatalMessage {
		die(lastWords{Victim: consumerVictim, Events: []string{e.ID.String()}, Stats: stats})
	}
	return handling, err
}
