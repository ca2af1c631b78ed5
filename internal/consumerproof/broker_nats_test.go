package consumerproof

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/broker/natsjs"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// duplicates is the shortest duplicate window that NATS takes.
const duplicates = 100 * time.Millisecond

func connectNATS(addr string) (jetstream.JetStream, error) {
	conn, err := nats.Connect("nats://"+addr, natsjs.ConnOptions()...)
	if err != nil {
		return nil, err
	}
	return jetstream.New(conn)
}

func newNATS(t *testing.T) *rig {
	t.Helper()
	server := natsserver.StartT(t, natsserver.Config{})
	r := &rig{place: newPlace("nats", server.Addr()), repeats: func() { time.Sleep(3 * duplicates) }} // it is the server's clock
	js, err := connectNATS(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.Conn().Close)
	_, err = natsjs.Ensure(t.Context(), js, r.topology(), natsjs.EnsureConfig{
		Create: true, Duplicates: duplicates, AckWait: deathNotice,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.publisher, err = natsjs.NewPublisher(js, natsjs.PublisherConfig{Topology: r.topology()}); err != nil {
		t.Fatal(err)
	}
	r.stored = func() []stored { return storedInNATS(t, js, r.Name) }
	r.protocol = func() tap { return newNATSTap(r.stored()) }
	return r
}

func (p place) subscribeNATS(ctx context.Context, h outbox.Handler, s settings) error {
	js, err := connectNATS(p.Addr)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	return natsjs.Subscribe(ctx, js, h, natsjs.SubscribeConfig{
		Topology: p.topology(), Concurrency: s.concurrency, AckWait: deathNotice, Stats: s.stats, Logger: s.logger(),
	})
}

func storedInNATS(t *testing.T, js jetstream.JetStream, stream string) (all []stored) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := reader.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range s.CachedInfo().State.Msgs {
		m, err := messages.Next(jetstream.NextMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stored{offset: int64(meta.Sequence.Stream), id: m.Headers().Get("ce-id")}) //nolint:gosec // small
	}
	return all
}
