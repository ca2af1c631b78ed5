package kafka

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

func wantKind(t *testing.T, what string, err error, want outbox.FailureKind) {
	t.Helper()
	if err == nil || outbox.FailureKindOf(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestNotEnoughReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	e := brokersuite.Event("order-1", 1)
	fault := r.refuse(kerr.NotEnoughReplicas, -1, uuid.Nil)
	err := p.Publish(t.Context(), []outbox.Envelope{e})[0]
	wantKind(t, "not appended", err, outbox.FailureUnavailable)
	if !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("%v doesn't say why", err)
	}
	fault.Remove()
	if n := len(r.stored()); n != 0 {
		t.Fatalf("%d events are stored", n)
	}
	r.publish(p, []outbox.Envelope{e})
}

func TestNotEnoughReplicasAfterAppend(t *testing.T) {
	t.Parallel()
	for _, answer := range []*kerr.Error{kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut} {
		r := newRig(t, 1)
		p := r.publisher(PublisherConfig{})
		fault := r.refuse(answer, -1, uuid.Nil)
		err := p.Publish(t.Context(), events(1, 1))[0]
		wantKind(t, answer.Message, err, outbox.FailureUnknown)
		fault.Remove()
		if n := len(r.stored()); n != 1 {
			t.Errorf("%s: %d events are stored, want the one that was appended, once", answer.Message, n)
		}
	}
}

// TestShortageOfReplicasIsRiddenOut shows that a retry under the same sequence
// number stores the event once.
func TestShortageOfReplicasIsRiddenOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	r.refuse(kerr.NotEnoughReplicasAfterAppend, recordRetries, uuid.Nil)
	r.publish(p, events(1, 1))
	if n := len(r.stored()); n != 1 {
		t.Errorf("%d events are stored, want 1", n)
	}
}

// TestRefusedBatch: a broker refuses a batch for one record's sake, and doesn't say
// which.
func TestRefusedBatch(t *testing.T) {
	t.Parallel()
	for _, answer := range []*kerr.Error{kerr.InvalidRecord, kerr.MessageTooLarge} {
		r := newRig(t, 1)
		p := r.publisher(PublisherConfig{})
		sent := events(20, 2) // of 20 aggregates, so 20 in the first batch
		bad := sent[7]
		r.refuse(answer, -1, bad.ID)
		for i, err := range p.Publish(t.Context(), sent) {
			if sent[i].ID == bad.ID {
				wantKind(t, answer.Message, err, outbox.FailureRejected)
			} else if err != nil {
				t.Errorf("%s: event %d, which is not to blame: %v", answer.Message, i, err)
			}
		}
		if n := len(r.stored()); n != len(sent)-1 {
			t.Errorf("%s: %d events are stored, want %d", answer.Message, n, len(sent)-1)
		}
	}
}

func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]PublisherConfig{"broker": {}, "client": {MaxMessageBytes: 5000}} {
		r := newRig(t, 1)
		if limit := "5000"; name == "broker" {
			_, err := kadm.NewClient(r.admin).AlterTopicConfigs(t.Context(),
				[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, topic)
			if err != nil {
				t.Fatal(err)
			}
		}
		p := r.publisher(cfg)
		sent := events(50, 1) // together above the limit
		sent[3].Data = []byte(`"` + strings.Repeat("x", 6000) + `"`)
		for i, err := range p.Publish(t.Context(), sent) {
			if i == 3 {
				wantKind(t, name, err, outbox.FailureRejected)
			} else if err != nil {
				t.Errorf("%s: event %d: %v", name, i, err)
			}
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{Topology: outbox.Topology{Events: []outbox.EventTopology{
		{Type: brokersuite.TypeA, Topic: "nowhere"}, {Type: brokersuite.TypeB, Topic: topic},
	}}})
	wantKind(t, "a topic that doesn't exist", p.Publish(t.Context(), events(1, 1))[0], outbox.FailureUnavailable)
	known, strange := brokersuite.Event("b", 1), brokersuite.Event("c", 1)
	known.Type, strange.Type = brokersuite.TypeB, brokersuite.TypeOther
	results := p.Publish(t.Context(), []outbox.Envelope{strange, known})
	wantKind(t, "a type that the topology doesn't know", results[0], outbox.FailureFailed)
	if results[1] != nil {
		t.Errorf("the other event: %v", results[1])
	}
}

// TestTopicIsMadeAnew: a topic that was deleted and made again has another id, under
// which the client has to learn it.
func TestTopicIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	c := newConsumer(nil)
	cfg := subscribeConfig()
	cfg.CommitInterval = time.Hour // so that the old topic's offsets may be committed at the end only
	r.subscribe(c, cfg)
	first := events(1, 3)
	r.publish(p, first)
	c.waitAll(t, first)
	admin := kadm.NewClient(r.admin)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	sent := events(2, 2)
	for _, err := range p.Publish(t.Context(), sent) {
		if kind := outbox.FailureKindOf(err); err == nil || kind == outbox.FailureRejected || kind == outbox.FailureFailed {
			t.Errorf("the topic is gone: %v", err)
		}
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new topic takes them", func() bool { return errors.Join(p.Publish(t.Context(), sent)...) == nil })
	c.waitAll(t, sent)
}

func TestNotAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	fault := r.refuse(kerr.TopicAuthorizationFailed, -1, uuid.Nil)
	wantKind(t, "not allowed", p.Publish(t.Context(), events(1, 1))[0], outbox.FailureUnavailable)
	fault.Remove()
	r.publish(p, events(1, 1))
}

// TestLostAnswer: the broker has the event and its answer never comes.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{AckTimeout: 200 * time.Millisecond})
	r.publish(p, events(1, 1))
	before := p.bulk
	r.network.setMute(true)
	observed := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	wantKind(t, "the answer is lost", p.Publish(t.Context(), events(1, 1))[0], outbox.FailureUnknown)
	r.network.setMute(false)
	if p.bulk == before {
		t.Error("the client that has the event is kept")
	}
	requests := observed.Hits()
	r.publish(p, events(1, 1))
	if n := len(r.stored()); n != 3 {
		t.Errorf("%d events are stored, want 3: each once", n)
	}
	if n := observed.Hits(); n != requests+1 {
		t.Errorf("%d produce requests after the outcome was called unknown, want the one of the next event", n-requests)
	}
}

// TestNothingIsSentLater: the event is stuck on its way when its outcome is called
// unknown. It must not arrive when the way is free again.
func TestNothingIsSentLater(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"AckTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		"context": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		r := newRig(t, 1)
		p := r.publisher(PublisherConfig{AckTimeout: 300 * time.Millisecond})
		r.publish(p, events(1, 1))
		r.network.setHold(true)
		ctx, cancel := end(t.Context())
		for _, err := range p.Publish(ctx, events(2, 2)) {
			if kind := outbox.FailureKindOf(err); err == nil ||
				kind != outbox.FailureUnknown && kind != outbox.FailureUnavailable && kind != outbox.FailureHeldBack {
				t.Errorf("%s: %v, want unknown, unavailable or held back", name, err)
			}
		}
		cancel()
		r.network.setHold(false)
		// What a client that was kept would send goes before this.
		r.publish(p, events(1, 1))
		r.publish(p, events(1, 1))
		if n := len(r.stored()); n != 3 {
			t.Errorf("%s: %d events are stored, want 3", name, n)
		}
	}
}

func TestNoBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{AckTimeout: time.Second})
	r.network.setDown(true)
	for i, err := range p.Publish(t.Context(), events(2, 1)) {
		if i == 0 {
			wantKind(t, "never connected", err, outbox.FailureUnavailable)
		}
	}
	r.network.setDown(false)
	r.publish(p, events(1, 1))
	r.network.setDown(true)
	sent := events(2, 1)
	// The first may find the connection's end while it is written.
	p.Publish(t.Context(), sent)
	for _, err := range p.Publish(t.Context(), sent) {
		if kind := outbox.FailureKindOf(err); kind != outbox.FailureUnavailable && kind != outbox.FailureHeldBack {
			t.Errorf("the broker is gone: %v, want unavailable", err)
		}
	}
}

// TestOptionsCannotWeaken: what a confirm means isn't the caller's to change.
func TestOptionsCannotWeaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, 6)
	cluster := r.via()
	cluster.Options = append(cluster.Options,
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.RecordRetries(100))
	p, err := NewPublisher(cluster, PublisherConfig{Topic: toTopic})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var weak atomic.Int64
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		if p, ok := req.(*kmsg.ProduceRequest); !ok || p.Acks != -1 {
			weak.Add(1)
		}
		return true
	}})
	r.publish(p, events(5, 10))
	if n := weak.Load(); n != 0 {
		t.Errorf("%d produce requests don't ask for all replicas in sync", n)
	}
	home := make(map[string]int32)
	for _, rec := range r.records() {
		if rec.ProducerID < 0 {
			t.Fatal("a record has no producer id: the producer isn't idempotent")
		}
		if first, ok := home[string(rec.Key)]; ok && first != rec.Partition {
			t.Fatalf("key %q is in partitions %d and %d", rec.Key, first, rec.Partition)
		}
		home[string(rec.Key)] = rec.Partition
	}
}

func TestClosedPublisher(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	r.refuse(kerr.InvalidRecord, 1, uuid.Nil) // so that the event is tried alone
	r.publish(p, events(1, 1))
	clients := []*kgo.Client{p.bulk.client, p.single.client}
	p.Close()
	p.Close()
	wantKind(t, "closed", p.Publish(t.Context(), events(1, 1))[0], outbox.FailureUnavailable)
	for i, c := range clients {
		if c.Context().Err() == nil {
			t.Errorf("client %d is still open", i+1)
		}
	}
}

func TestPublisherSettings(t *testing.T) {
	t.Parallel()
	somewhere := Cluster{Brokers: []string{"127.0.0.1:1"}}
	ok := PublisherConfig{Topic: toTopic}
	if p, err := NewPublisher(somewhere, ok); err != nil {
		t.Errorf("the usual settings: %v", err)
	} else {
		p.Close()
	}
	for name, make := range map[string]func() (Cluster, PublisherConfig){
		"no brokers": func() (Cluster, PublisherConfig) { return Cluster{}, ok },
		"no topic":   func() (Cluster, PublisherConfig) { return somewhere, PublisherConfig{} },
		"negative size": func() (Cluster, PublisherConfig) {
			return somewhere, PublisherConfig{Topic: toTopic, MaxMessageBytes: -1}
		},
		"idempotence off": func() (Cluster, PublisherConfig) {
			return Cluster{Brokers: somewhere.Brokers, Options: []kgo.Opt{kgo.DisableIdempotentWrite()}}, ok
		},
		"by hand": func() (Cluster, PublisherConfig) {
			return Cluster{Brokers: somewhere.Brokers, Options: []kgo.Opt{kgo.ManualFlushing()}}, ok
		},
		"small timeout": func() (Cluster, PublisherConfig) { return somewhere, PublisherConfig{Topic: toTopic, AckTimeout: 1} },
		"bad topic name": func() (Cluster, PublisherConfig) {
			return somewhere, PublisherConfig{Topology: outbox.Topology{Events: []outbox.EventTopology{{Type: "a", Topic: "a b"}}}}
		},
	} {
		cluster, cfg := make()
		if p, err := NewPublisher(cluster, cfg); err == nil {
			p.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
