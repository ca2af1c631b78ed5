package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// TestLastCommitIsRepeated: the last commit of a subscription meets a group that is just being
// divided, and is done all the same.
func TestLastCommitIsRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	all := events(5, 2)
	r.publish(r.publisher(PublisherConfig{}), all)
	refused := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2})
	c := newConsumer(nil)
	cfg := subscribeConfig()
	cfg.CommitInterval = time.Hour
	stop := r.subscribe(c, cfg)
	c.waitAll(t, all)
	stop()
	if n := refused.Hits(); n != 2 {
		t.Errorf("%d commits were refused, want 2", n)
	}
	if n := r.unacked(c.Name()); n != 0 {
		t.Errorf("%d events are not committed at the end", n)
	}
}

// TestAbortedIsNotRead: what another producer's transaction took back isn't handled.
func TestAbortedIsNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	other, err := (Cluster{Brokers: r.brokers, Options: quick()}).client(kgo.TransactionalID("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	sent := events(1, 1)
	aborted, err := encode(brokersuite.Event(sent[0].AggregateID, 0)) // so that it would be handled first
	if err == nil {
		err = other.BeginTransaction()
	}
	if err == nil {
		aborted.Topic = topic
		err = other.ProduceSync(t.Context(), aborted).FirstErr()
	}
	if err == nil {
		err = other.EndTransaction(t.Context(), kgo.TryAbort)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.publish(r.publisher(PublisherConfig{}), sent)
	c := newConsumer(nil)
	cluster := r.via()
	cluster.Options = append(cluster.Options, kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	r.subscribeVia(cluster, c, subscribeConfig())
	c.waitAll(t, sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.finished) != 1 {
		t.Errorf("%d events were handled, want the one that wasn't taken back", len(c.finished))
	}
}

// TestSubscriptionsOptions: no option of the caller's changes how offsets are committed, nor
// lets a rebalance in while records are handed over.
func TestSubscriptionsOptions(t *testing.T) {
	t.Parallel()
	cluster := Cluster{Brokers: []string{"127.0.0.1:1"}, Options: []kgo.Opt{kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())}}
	s := &subscription{ctx: context.Background(), cluster: cluster, topics: []string{topic}, cfg: subscribeConfig().withDefaults(newConsumer(nil))}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.client.CloseAllowingRebalance()
	for name, opt := range map[string]any{"BlockRebalanceOnPoll": kgo.BlockRebalanceOnPoll, "DisableAutoCommit": kgo.DisableAutoCommit} {
		if s.client.OptValue(opt) != true {
			t.Errorf("%s is off", name)
		}
	}
	if at := s.client.OptValue(kgo.ConsumeResetOffset); at != kgo.NewOffset().AtStart() {
		t.Errorf("a new group begins at %v", at)
	}
}

// TestOtherTypesAreCommitted: events that the handler doesn't want are passed over and done
// with, also when they are the last ones and when their type is in the body.
func TestOtherTypesAreCommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	sent, other := events(1, 1), brokersuite.Event("order-1", 2)
	other.Type = brokersuite.TypeOther
	c := newConsumer(nil)
	r.subscribe(c, subscribeConfig())
	r.publish(p, append(sent, other))
	c.waitAll(t, sent)
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 })
	r.put([]byte(`{"specversion": "1.0", "id": "0198f1d2-0000-7000-8000-000000000001", "source": "orders", "type": "order.archived",
		"subject": "order-1", "time": "2026-02-03T04:05:06Z", "datacontenttype": "application/json",
		"aggregatetype": "order", "aggregateversion": 3, "schemaversion": 1, "data": {}}`),
		map[string]string{contentType: outbox.StructuredType})
	eventually(t, "again", func() bool { return r.unacked(c.Name()) == 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.finished) != 1 || len(c.parked) != 0 {
		t.Errorf("%d events handled, %d parked, want one handled", len(c.finished), len(c.parked))
	}
}

// TestHandlersEndFirst: a member leaves its group when its handlers have ended.
func TestHandlersEndFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	sent := events(1, 1)
	r.publish(r.publisher(PublisherConfig{}), sent)
	left, leave := context.WithCancel(t.Context())
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.LeaveGroup}, Observe: true, Count: -1,
		When: func(kmsg.Request) bool { leave(); return true },
	})
	entered, ending := make(chan struct{}), make(chan struct{})
	c := newConsumer(func(context.Context, outbox.Envelope) error {
		close(entered)
		<-ending
		select {
		case <-left.Done():
			t.Error("the member has left, and a handler runs")
		case <-time.After(200 * time.Millisecond): // longer than it takes to leave
		}
		return nil
	})
	stop := r.subscribe(c, subscribeConfig())
	<-entered
	close(ending)
	stop()
	if left.Err() == nil {
		t.Error("the member hasn't left: the test shows nothing")
	}
	if n := r.unacked(c.Name()); n != 0 {
		t.Errorf("%d events are not committed at the end", n)
	}
}

// TestNoAssignmentAfterTheEnd: a partition that comes while the subscription ends is left to others.
func TestNoAssignmentAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := &subscription{ctx: t.Context(), partitions: make(map[topicPartition]*partition), ended: true}
	s.assigned(t.Context(), nil, map[string][]int32{topic: {0}})
	if len(s.partitions) != 0 {
		t.Error("it was taken")
	}
}

// TestFetchingPauses: while the handlers don't keep up no more than a window, and what one
// poll returns, is kept.
func TestFetchingPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	all := events(100, 50)
	r.publish(r.publisher(PublisherConfig{Unordered: true}), all)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := subscribeConfig()
	cfg.Window, cfg.Concurrency, cfg.Stats = 10, 10, new(outbox.SubscribeStats)
	c := newConsumer(func(context.Context, outbox.Envelope) error { return errors.New("all fail") })
	s := &subscription{
		ctx: ctx, cluster: r.via(), topics: []string{topic}, handler: c, cfg: cfg.withDefaults(c),
		handles: map[string]bool{brokersuite.TypeA: true},
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.client.CloseAllowingRebalance()
	ended := make(chan struct{})
	go func() { defer close(ended); s.run() }()
	defer func() { cancel(); <-ended }()
	eventually(t, "ten fail, again and again", func() bool { return cfg.Stats.Failed.Load() > 200 })
	s.mu.Lock()
	p := s.partitions[topicPartition{topic, 0}]
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.queue); n < cfg.Window || n > cfg.Window+pollRecords {
		t.Errorf("%d of %d records wait, want no more than a window and a poll", n, len(all))
	}
}

// TestPausedPartitionComesBack: a partition that wasn't fetched from when it went to another
// member is when it comes back.
func TestPausedPartitionComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	all := events(50, 120) // more in each partition than two polls return
	r.publish(r.publisher(PublisherConfig{Unordered: true}), all)
	var failing atomic.Bool
	failing.Store(true)
	called := make(chan struct{}, 1)
	cfg := subscribeConfig()
	cfg.Window, cfg.Concurrency, cfg.Stats = 10, 10, new(outbox.SubscribeStats)
	c := newConsumer(func(context.Context, outbox.Envelope) error {
		if failing.Load() {
			return errors.New("all fail")
		}
		return nil
	})
	r.subscribe(c, cfg)
	eventually(t, "both partitions are full", func() bool { return cfg.Stats.Delivered.Load() == 20 })
	otherCfg := subscribeConfig()
	otherCfg.Window = 10
	stop := r.subscribe(newConsumer(func(context.Context, outbox.Envelope) error {
		select {
		case called <- struct{}{}:
		default:
		}
		return errors.New("all fail")
	}), otherCfg)
	select {
	case <-called:
	case <-time.After(30 * time.Second):
		t.Fatal("the other member gets no partition")
	}
	stop()
	failing.Store(false)
	c.waitAll(t, all)
}
