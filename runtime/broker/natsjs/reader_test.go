package natsjs

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// durable makes the consumer that the tests' handler has, with other settings.
func (r *rig) durable(change func(*jetstream.ConsumerConfig)) {
	r.t.Helper()
	from := source{durable: "projector", subjects: []string{"orders." + brokersuite.TypeA, "orders." + brokersuite.TypeB}}
	cfg := consumerConfig("projector", from, time.Minute, 1000)
	change(&cfg)
	if _, err := r.js.CreateOrUpdateConsumer(r.t.Context(), stream, cfg); err != nil {
		r.t.Fatal(err)
	}
}

// reader makes one of its consumer, as Subscribe does, with what it logs.
func (r *rig) reader() (*reader, *lockedBuffer) {
	r.t.Helper()
	consumer, err := r.via.Consumer(r.t.Context(), stream, "projector")
	if err != nil {
		r.t.Fatal(err)
	}
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := &subscription{js: r.via, cfg: subscribeConfig().withDefaults(outbox.Limits{}), log: logger}
	return newReader(s, source{stream: stream, durable: "projector"}, consumer, logger), &log
}

// read runs the reader until the test ends.
func (r *rig) read(reading *reader) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := reading.run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(func() { cancel(); <-ended })
}

// A request above the consumer's own limits gets nothing.
func TestConsumersLimits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"batch":   func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 3 },
		"expires": func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.durable(change)
			var handled atomic.Int64
			r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { handled.Add(1); return nil }), subscribeConfig())
			for i := range int64(10) {
				r.publish(brokersuite.Event("a", i+1))
			}
			waitUntil(t, "all are handled", func() bool { return handled.Load() == 10 })
		})
	}
}

// The limits are lowered while a request is out: the next one heeds them.
func TestLimitsAreLowered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.durable(func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Second })
	var handled atomic.Int64
	r.subscribe(funcHandler(func(context.Context, outbox.Envelope) error { handled.Add(1); return nil }), subscribeConfig())
	waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
	r.durable(func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires, c.MaxRequestBatch = time.Second, 1 })
	waitUntil(t, "the request is over", func() bool { return !r.waiting("projector") })
	r.publish(brokersuite.Event("a", 1))
	waitUntil(t, "it is handled", func() bool { return handled.Load() == 1 })
}

func TestPausedConsumerIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.durable(func(*jetstream.ConsumerConfig) {})
	reading, log := r.reader()
	reading.lookEvery = 10 * time.Millisecond
	r.read(reading)
	waitUntil(t, "it reads", func() bool { return r.waiting("projector") })
	if _, err := r.js.PauseConsumer(t.Context(), stream, "projector", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64
	r.proxy.dropIf(func(subject string, _ []byte) bool {
		if strings.Contains(subject, ".CONSUMER.INFO.") {
			looks.Add(1)
		}
		return false
	})
	waitUntil(t, "it has looked often", func() bool { return looks.Load() > 3 })
	if _, err := r.js.ResumeConsumer(t.Context(), stream, "projector"); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it tells of the end", func() bool { return strings.Contains(log.String(), "no longer paused") })
	if n := strings.Count(log.String(), "is paused"); n != 1 {
		t.Errorf("it was told %d times, want once", n)
	}
}

func TestConsumerThatIsPausedAtTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	until := time.Now().Add(time.Hour)
	r.durable(func(c *jetstream.ConsumerConfig) { c.PauseUntil = &until })
	reading, log := r.reader()
	r.read(reading)
	waitUntil(t, "it tells", func() bool { return strings.Contains(log.String(), "is paused") })
}

// The server has the consumer, and no request for messages gets through to it.
func TestRequestsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.durable(func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = leastExpiry }) // a short heartbeat
	r.proxy.dropIf(func(subject string, _ []byte) bool { return strings.Contains(subject, ".MSG.NEXT.") })
	reading, log := r.reader()
	r.read(reading)
	waitUntil(t, "it tells", func() bool { return strings.Contains(log.String(), "doesn't answer requests") })
}
