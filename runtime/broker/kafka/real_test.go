package kafka

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outboxgen/outboxgen/internal/kafkaserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// Which real Kafka to test on: brokers of one's own, separated by commas, or a private
// one. Without either the tests on kfake are all.
const (
	brokersVar = "OUTBOXGEN_KAFKA_BROKERS"
	privateVar = "OUTBOXGEN_KAFKA"
)

// real is a real cluster; server is nil when it is one's own.
type real struct {
	server  *kafkaserver.Cluster
	brokers []string
}

func startReal(t *testing.T, brokers int) *real {
	t.Helper()
	if own := os.Getenv(brokersVar); own != "" {
		return &real{brokers: strings.Split(own, ",")}
	}
	if os.Getenv(privateVar) == "" {
		t.Skipf("on kfake only: make test-kafka runs this on a real Kafka, or set %s", brokersVar)
	}
	server, err := kafkaserver.Start(t.Context(), t.TempDir(), brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return &real{server: server, brokers: server.Brokers()}
}

// private skips what has to stop brokers.
func (k *real) private(t *testing.T) {
	t.Helper()
	if k.server == nil {
		t.Skipf("needs brokers that can be stopped: not with %s", brokersVar)
	}
}

func (k *real) start(t *testing.T, broker int) {
	t.Helper()
	if err := k.server.StartBroker(broker); err != nil {
		t.Fatal(err)
	}
}

var topicCount atomic.Int64

// newTopic makes a topic with a name of its own.
func (k *real) newTopic(t *testing.T, cfg EnsureConfig) *view {
	t.Helper()
	name := fmt.Sprintf("outboxgen-test-%d-%d", time.Now().UnixNano(), topicCount.Add(1))
	cfg.Create = true
	v := newView(t, k.brokers, name)
	eventually(t, "the topic is made", func() bool {
		_, err := Ensure(t.Context(), Cluster{Brokers: k.brokers}, topologyOf(name), cfg)
		return err == nil
	})
	eventually(t, "its partitions have leaders", func() bool {
		ends, err := kadm.NewClient(v.admin).ListEndOffsets(t.Context(), name)
		return err == nil && ends.Error() == nil
	})
	t.Cleanup(func() { _, _ = kadm.NewClient(v.admin).DeleteTopic(context.Background(), name) })
	return v
}

func TestRealKafka(t *testing.T) {
	k := startReal(t, 1)
	k.private(t)
	one := EnsureConfig{ReplicationFactor: 1, Partitions: 3}
	t.Run("publisher", func(t *testing.T) {
		brokersuite.RunPublisher(t, func(t *testing.T) brokersuite.PublisherFixture {
			v, n := k.newTopic(t, one), newNetwork()
			var failing sync.Map // event ids that go where no topic is, once
			p, err := NewPublisher(through(n, k.brokers), PublisherConfig{AckTimeout: 2 * time.Second, Topic: func(e outbox.Envelope) string {
				if _, fail := failing.LoadAndDelete(e.ID); fail {
					return v.topic + "-missing"
				}
				return v.topic
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			return brokersuite.PublisherFixture{
				Publisher: p,
				Stored:    func(*testing.T) []outbox.Envelope { return v.stored() },
				Stop:      func(*testing.T) { k.server.KillBroker(0) },
				Start:     func(t *testing.T) { k.start(t, 0) },
				Stall:     func(*testing.T) { n.setMute(true) },
				Unstall:   func(*testing.T) { n.setMute(false); n.cut() },
				FailOnce:  func(_ *testing.T, id uuid.UUID) { failing.Store(id, true) },
			}
		})
	})
	t.Run("subscriber", func(t *testing.T) {
		brokersuite.RunSubscriber(t, func(t *testing.T) brokersuite.SubscriberFixture {
			v := k.newTopic(t, EnsureConfig{ReplicationFactor: 1, Partitions: 1})
			p, err := NewPublisher(through(newNetwork(), k.brokers), PublisherConfig{Topic: func(outbox.Envelope) string { return v.topic }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			// The suite's consumers have the same names in each test.
			group := func(consumer string) string { return v.topic + "." + consumer }
			stats := new(outbox.SubscribeStats)
			return brokersuite.SubscriberFixture{
				Publisher: p,
				Subscribe: func(ctx context.Context, h outbox.Handler) error {
					cfg := subscribeConfig()
					cfg.Topics, cfg.Group, cfg.Stats = []string{v.topic}, group(h.Name()), stats
					return Subscribe(ctx, through(newNetwork(), k.brokers), h, cfg)
				},
				Stats:   stats,
				Unacked: func(_ *testing.T, consumer string) int { return v.unacked(group(consumer)) },
				Duplicate: func(t *testing.T, e outbox.Envelope) {
					if err := p.Publish(t.Context(), []outbox.Envelope{e})[0]; err != nil {
						t.Fatal(err)
					}
				},
				Restart: func(t *testing.T) { k.server.KillBroker(0); k.start(t, 0) },
				Raw:     func(_ *testing.T, body []byte, headers map[string]string) { v.put(body, headers) },
			}
		})
	})
}

// TestRealReplicas breaks the in-sync set of three brokers while events are published:
// what is confirmed is there afterwards, and nothing is confirmed with too few.
func TestRealReplicas(t *testing.T) {
	k := startReal(t, 3)
	k.private(t)
	v := k.newTopic(t, EnsureConfig{Partitions: 3})
	cluster := Cluster{Brokers: k.brokers, Options: quick()}
	p, err := NewPublisher(cluster, PublisherConfig{Topic: func(outbox.Envelope) string { return v.topic }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	confirmed := make(map[uuid.UUID]bool)
	kinds := make(map[outbox.FailureKind]int)
	publish := func(all []outbox.Envelope) (rest []outbox.Envelope) {
		for i, err := range p.Publish(t.Context(), all) {
			if err == nil {
				confirmed[all[i].ID] = true
				continue
			}
			kind := outbox.FailureKindOf(err)
			kinds[kind]++
			if kind == outbox.FailureRejected || kind == outbox.FailureFailed {
				t.Errorf("an outage is called the event's fault: %v", err)
			}
			rest = append(rest, all[i])
		}
		return rest
	}
	all := func() []outbox.Envelope { return events(50, 4) }
	eventually(t, "with all brokers", func() bool { return len(publish(all())) == 0 })

	k.server.KillBroker(2)
	rest := all()
	eventually(t, "with two of three", func() bool { rest = publish(rest); return len(rest) == 0 })

	k.server.KillBroker(1)
	waiting := events(1, 1)
	eventually(t, "the broker says that too few are in sync", func() bool {
		kinds[outbox.FailureUnavailable] = 0
		if len(publish(waiting)) == 0 {
			t.Fatal("confirmed with one replica of two that are asked for")
		}
		return kinds[outbox.FailureUnavailable] == 1
	})
	k.start(t, 1)
	eventually(t, "with two again", func() bool { waiting = publish(waiting); return len(waiting) == 0 })
	k.start(t, 2)
	rest = all()
	eventually(t, "with three again", func() bool { rest = publish(rest); return len(rest) == 0 })

	stored := make(map[uuid.UUID]bool)
	for _, e := range v.stored() {
		stored[e.ID] = true
	}
	for id := range confirmed {
		if !stored[id] {
			t.Errorf("event %s was confirmed and is lost", id)
		}
	}
	t.Logf("%d confirmed; by kind: %v", len(confirmed), kinds)
}
