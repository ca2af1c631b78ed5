package natsjs

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

const stream = "ORDERS"

// rig is a server with the stream ORDERS on orders.>, a proxy in front of it, and a
// connection through each way.
type rig struct {
	t      *testing.T
	server *natsserver.Server
	proxy  *proxy
	js     jetstream.JetStream // straight to the server
	via    jetstream.JetStream // through the proxy
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: natsserver.StartT(t, natsserver.Config{})}
	r.proxy = startProxy(t, r.server.Addr())
	r.js = connect(t, r.server.URL())
	r.via = connect(t, "nats://"+r.proxy.addr())
	r.addStream(jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}})
	return r
}

func (r *rig) addStream(cfg jetstream.StreamConfig) {
	r.t.Helper()
	if _, err := r.js.CreateStream(r.t.Context(), cfg); err != nil {
		r.t.Fatalf("create stream %s: %v", cfg.Name, err)
	}
}

func connect(t *testing.T, url string, own ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, ConnOptions(append([]nats.Option{
		nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // nats.go prints them otherwise
	}, own...)...)...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (r *rig) publisher(cfg PublisherConfig) *Publisher {
	r.t.Helper()
	if cfg.Stream == "" {
		cfg.Stream = stream
	}
	p, err := NewPublisher(r.via, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// stored decodes everything that the stream holds.
func (r *rig) stored(name string) []outbox.Envelope {
	r.t.Helper()
	var (
		s   jetstream.Stream
		err error
	)
	for range 200 { // the connection may be on its way back after a restart
		if s, err = r.js.Stream(r.t.Context(), name); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		r.t.Fatalf("stream %s: %v", name, err)
	}
	var all []outbox.Envelope
	for seq := s.CachedInfo().State.FirstSeq; seq > 0 && seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatalf("stream %s, sequence %d: %v", name, seq, err)
		}
		e, err := decode(m.Header, m.Data)
		if err != nil {
			r.t.Fatalf("stream %s, sequence %d: %v", name, seq, err)
		}
		all = append(all, e)
	}
	return all
}

// unacked is -1 while the server doesn't answer.
func (r *rig) unacked(consumer string) int {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	c, err := r.js.Consumer(ctx, stream, DurableName(consumer))
	if err != nil {
		return -1
	}
	return c.CachedInfo().NumAckPending + int(c.CachedInfo().NumPending)
}

// waiting reports whether the consumer's subscriber has asked for messages.
func (r *rig) waiting(consumer string) bool {
	c, err := r.js.Consumer(r.t.Context(), stream, DurableName(consumer))
	return err == nil && c.CachedInfo().NumWaiting > 0
}

// subscribeConfig repeats within milliseconds and says nothing.
func subscribeConfig() SubscribeConfig {
	return SubscribeConfig{
		Stream: stream, SubjectPrefix: "orders",
		Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		AckWait: 2 * time.Second, AckTimeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// subscribe runs Subscribe in the background until the test ends, or stop is called.
func (r *rig) subscribe(h outbox.Handler, cfg SubscribeConfig) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Subscribe(ctx, r.via, h, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.t.Errorf("Subscribe: %v", err)
			}
		case <-time.After(30 * time.Second):
			r.t.Error("Subscribe didn't return when its context ended")
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func TestPublisherSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunPublisher(t, publisherFixture)
}

func publisherFixture(t *testing.T) brokersuite.PublisherFixture {
	r := newRig(t)
	var failing sync.Map // event ids that go astray once
	p := r.publisher(PublisherConfig{Subject: func(e outbox.Envelope) string {
		if _, fail := failing.LoadAndDelete(e.ID); fail {
			return "elsewhere.astray"
		}
		return "orders." + e.Type
	}})
	r.addStream(jetstream.StreamConfig{Name: "ELSEWHERE", Subjects: []string{"elsewhere.>"}})
	return brokersuite.PublisherFixture{
		Publisher: p,
		Stored:    func(*testing.T) []outbox.Envelope { return r.stored(stream) },
		Stop:      func(*testing.T) { r.server.Stop() },
		Start:     func(t *testing.T) { r.restart(t) },
		Stall:     func(*testing.T) { r.proxy.muteServer(true) },
		Unstall:   func(*testing.T) { r.proxy.muteServer(false); r.proxy.cut() },
		FailOnce:  func(_ *testing.T, id uuid.UUID) { failing.Store(id, true) },
	}
}

func (r *rig) restart(t *testing.T) {
	t.Helper()
	if err := r.server.Restart(); err != nil {
		t.Fatal(err)
	}
}

func TestSubscriberSuite(t *testing.T) {
	t.Parallel()
	brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
		r := newRig(t)
		cfg := subscribeConfig()
		cfg.Stats = new(outbox.SubscribeStats)
		return brokersuite.SubscriberFixture{
			Publisher: r.publisher(PublisherConfig{}),
			Subscribe: func(ctx context.Context, h outbox.Handler) error { return Subscribe(ctx, r.via, h, cfg) },
			Stats:     cfg.Stats,
			Unacked:   func(_ *testing.T, consumer string) int { return r.unacked(consumer) },
			Duplicate: func(t *testing.T, e outbox.Envelope) {
				// Without Nats-Msg-Id the stream doesn't drop it.
				m, err := encode("orders."+e.Type, e)
				if err != nil {
					t.Fatal(err)
				}
				r.put(m)
			},
			Restart: func(t *testing.T) { r.restart(t) },
			Raw: func(_ *testing.T, body []byte, headers map[string]string) {
				m := &nats.Msg{Subject: "orders." + brokersuite.TypeA, Header: nats.Header{}, Data: body}
				for name, value := range headers {
					m.Header[name] = []string{value}
				}
				r.put(m)
			},
		}
	})
}

// put stores a message as it is.
func (r *rig) put(m *nats.Msg) {
	r.t.Helper()
	if _, err := r.js.PublishMsg(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
}
