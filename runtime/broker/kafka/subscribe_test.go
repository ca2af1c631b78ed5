package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// TestRebalance has members come and go while 2,000 events are handled, some of
// which fail at first.
func TestRebalance(t *testing.T) {
	t.Parallel()
	r := newRig(t, 6)
	all := events(100, 20)
	r.publish(r.publisher(PublisherConfig{}), all)
	var (
		mu     sync.Mutex
		failed = make(map[uuid.UUID]bool)
	)
	gate := make(chan struct{}, 16) // lets so many handlers pass a time
	c := newConsumer(func(_ context.Context, e outbox.Envelope) error {
		<-gate
		mu.Lock()
		defer mu.Unlock()
		if e.AggregateVersion%7 == 3 && !failed[e.ID] {
			failed[e.ID] = true
			return errors.New("once")
		}
		return nil
	})
	audit := r.audit(c.isDone)
	open := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(open) }))
	go func() {
		for {
			select {
			case gate <- struct{}{}:
			case <-open:
				return
			}
			time.Sleep(50 * time.Microsecond)
		}
	}()
	cfg := subscribeConfig()
	cfg.Concurrency, cfg.Stats = 8, new(outbox.SubscribeStats)
	count := func(n int) func() bool { return func() bool { return len(c.finished) >= n } }
	stopFirst := r.subscribe(c, cfg)
	c.wait(t, "the first member works", count(300))
	stopSecond := r.subscribe(c, cfg)
	c.wait(t, "both work", count(900))
	stopFirst()
	c.wait(t, "the second works alone", count(1200))
	r.subscribe(c, cfg)
	c.wait(t, "a third works too", count(1500))
	stopSecond()
	c.waitAll(t, all)
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 })
	if n := audit.sum(); n != int64(len(all)) {
		t.Errorf("the commits cover %d records, want %d", n, len(all))
	}
	eventually(t, "all count as acknowledged", func() bool { return cfg.Stats.Acked.Load() == int64(len(all)) })
	checkOrder(t, c)
	t.Logf("%d calls beyond the first of an event, %d commits", c.repeats(), audit.commits)
}

// TestHandover: a partition that goes to another member in good order takes along
// how far it has come, however seldom offsets are committed otherwise.
func TestHandover(t *testing.T) {
	t.Parallel()
	r := newRig(t, 6)
	p := r.publisher(PublisherConfig{})
	first, second := events(50, 4), events(50, 4)
	r.publish(p, first)
	c := newConsumer(nil)
	cfg := subscribeConfig()
	cfg.CommitInterval = time.Hour
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	stop := r.subscribe(c, cfg)
	c.waitAll(t, first)
	other := newConsumer(nil)
	r.subscribe(other, cfg)
	eventually(t, "some partitions are handed over", func() bool { return r.unacked(c.Name()) < len(first) })
	r.publish(p, second)
	waitBoth := func() bool {
		return !slices.ContainsFunc(second, func(e outbox.Envelope) bool { return !c.isDone(e.ID) && !other.isDone(e.ID) })
	}
	eventually(t, "both handle the rest", waitBoth)
	stop()
	eventually(t, "the other has all partitions", func() bool { return other.polls(r) })
	if n := c.repeats() + other.repeats(); n != 0 {
		t.Errorf("%d events were handled twice by one member", n)
	}
	for _, e := range slices.Concat(first, second) {
		if c.isDone(e.ID) && other.isDone(e.ID) {
			t.Errorf("event %v was handled by both: of the first %v", e, slices.ContainsFunc(first, func(f outbox.Envelope) bool { return f.ID == e.ID }))
		}
	}
}

// polls reports whether the consumer gets an event of each partition.
func (c *consumer) polls(r *rig) bool {
	r.t.Helper()
	more := events(50, 1)
	p := r.publisher(PublisherConfig{})
	r.publish(p, more)
	c.waitAll(r.t, more)
	return true
}

// checkOrder fails when an event was finished for the first time behind a later one of
// its aggregate.
func checkOrder(t *testing.T, c *consumer) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := make(map[string]int64)
	for _, e := range c.finished {
		switch next := last[e.AggregateID] + 1; {
		case e.AggregateVersion == next:
			last[e.AggregateID] = next
		case e.AggregateVersion > next:
			t.Fatalf("%s: version %d was handled before version %d", e.AggregateID, e.AggregateVersion, next)
		}
	}
}

// TestPoison: one event fails until all others are done, beside records that are no
// events at all.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	p := r.publisher(PublisherConfig{})
	all := events(100, 20)
	poison := all[130] // version 2 of its aggregate; 18 more follow
	r.publish(p, all[:1000])
	garbage := &kgo.Record{Topic: topic, Partition: 0, Value: []byte("\xff\x00"), Headers: []kgo.RecordHeader{header("ce_id", "\xff"), header("ce_type", brokersuite.TypeA)}}
	for range 3 {
		if err := r.admin.ProduceSync(t.Context(), garbage).FirstErr(); err != nil {
			t.Fatal(err)
		}
		garbage = &kgo.Record{Topic: topic, Value: nil}
	}
	r.publish(p, all[1000:])
	before := int64(slices.IndexFunc(r.records(), func(rec *kgo.Record) bool { return read(rec).attrs["id"] == poison.ID.String() }))

	var cured atomic.Bool
	c := newConsumer(func(_ context.Context, e outbox.Envelope) error {
		if e.ID == poison.ID && !cured.Load() {
			return &outbox.HandlingError{Kind: outbox.FailureFailed, Cause: errors.New("poison"), Again: 20 * time.Millisecond}
		}
		return nil
	})
	audit := r.audit(func(id uuid.UUID) bool { return c.isDone(id) })
	cfg := subscribeConfig()
	cfg.Concurrency, cfg.Stats, cfg.Window = 4, new(outbox.SubscribeStats), 50
	r.subscribe(c, cfg)
	c.wait(t, "the others go past it", func() bool { return len(c.done) == len(all)-19 && len(c.parked) == 3 })
	eventually(t, "what comes before it is committed", func() bool { return audit.sum() == before })
	if n := cfg.Stats.Acked.Load(); n > before {
		t.Errorf("%d events count as acknowledged while one before the others fails, want at most %d", n, before)
	}
	cured.Store(true)
	c.waitAll(t, all)
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 })
	checkOrder(t, c)
	if calls := c.repeats() - (c.calls[poison.ID] - 1); calls != 0 {
		t.Errorf("%d events that didn't fail were handled again", calls)
	}
	var parked []string
	for _, m := range c.parked {
		parked = append(parked, m.Reference)
	}
	slices.Sort(parked)
	if want := []string{"orders/0/1000", "orders/0/1001", "orders/0/1002"}; !slices.Equal(parked, want) {
		t.Errorf("parked %q, want %q", parked, want)
	}
	if n := cfg.Stats.Unreadable.Load(); n != 3 {
		t.Errorf("%d unreadable, want 3", n)
	}
}

// TestWindow: no more than Window records wait; behind them the partition does.
func TestWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	all := events(40, 1)
	r.publish(r.publisher(PublisherConfig{}), all)
	var failing atomic.Bool
	failing.Store(true)
	c := newConsumer(func(context.Context, outbox.Envelope) error {
		if failing.Load() {
			return errors.New("all fail")
		}
		return nil
	})
	cfg := subscribeConfig()
	cfg.Window, cfg.Concurrency, cfg.Stats = 10, 20, new(outbox.SubscribeStats)
	r.subscribe(c, cfg)
	eventually(t, "ten fail, again and again", func() bool { return cfg.Stats.Failed.Load() > 100 })
	if n := cfg.Stats.Delivered.Load(); n != 10 {
		t.Errorf("%d records are in the handlers' hands, want 10", n)
	}
	failing.Store(false)
	c.waitAll(t, all)
}

// TestConcurrencyIsOfTheSubscription: not of each partition.
func TestConcurrencyIsOfTheSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t, 6)
	all := events(60, 5)
	r.publish(r.publisher(PublisherConfig{}), all)
	var running, most atomic.Int64
	c := newConsumer(func(context.Context, outbox.Envelope) error {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	cfg := subscribeConfig()
	cfg.Concurrency = 3
	r.subscribe(c, cfg)
	c.waitAll(t, all)
	if n := most.Load(); n != 3 {
		t.Errorf("%d handlers ran at a time, want 3", n)
	}
}

// TestKilledConsumer: a member vanishes without a commit of its last events.
func TestKilledConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	all := events(50, 10)
	r.publish(r.publisher(PublisherConfig{}), all)
	r.network.setDown(false)
	cfg := subscribeConfig()
	cfg.CommitInterval = time.Hour
	var n atomic.Int64
	halfway := make(chan struct{})
	c := newConsumer(func(context.Context, outbox.Envelope) error {
		if n.Add(1) == 200 {
			r.network.setDown(true)
			close(halfway)
		}
		return nil
	})
	stop := r.subscribe(c, cfg)
	select {
	case <-halfway:
	case <-time.After(30 * time.Second):
		t.Fatal("the first member doesn't come halfway")
	}
	stop()
	first := len(c.finished)
	if r.unacked(c.Name()) != len(all) {
		t.Fatalf("the first member has committed")
	}
	r.network.setDown(false)
	second := newConsumer(nil)
	audit := r.audit(second.isDone)
	r.subscribe(second, subscribeConfig())
	second.waitAll(t, all)
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 })
	if first < 200 || audit.sum() != int64(len(all)) {
		t.Errorf("the first member handled %d, the commits cover %d", first, audit.sum())
	}
	checkOrder(t, second)
}

// TestLateAck: a handler finishes an event of an assignment that another member has
// meanwhile. What that one has committed stands.
func TestLateAck(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	all := events(1, 100)
	r.publish(r.publisher(PublisherConfig{}), all)
	entered, blocked := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(blocked) })
	stuck := newConsumer(func(_ context.Context, e outbox.Envelope) error {
		if e.ID == all[20].ID {
			close(entered)
			<-blocked
		}
		return nil
	})
	cluster := r.via()
	cluster.Options = append(cluster.Options, kgo.SessionTimeout(300*time.Millisecond))
	stop := r.subscribeVia(cluster, stuck, subscribeConfig())
	t.Cleanup(release)
	<-entered
	eventually(t, "what comes before is committed", func() bool { return r.unacked(stuck.Name()) == len(all)-20 })
	r.network.setDown(true)

	other := r.via()
	other.Options = append(other.Options, kgo.Dialer(newNetwork().dial))
	second := newConsumer(nil)
	r.subscribeVia(other, second, subscribeConfig())
	second.waitAll(t, all[20:])
	eventually(t, "the other member has committed", func() bool { return r.unacked(stuck.Name()) == 0 })
	var late atomic.Int64
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1,
		When: func(kmsg.Request) bool { late.Add(1); return true },
	})
	r.network.setDown(false)
	release()
	stuck.wait(t, "the late handler finishes", func() bool { return stuck.done[all[20].ID] })
	stop()
	if n := r.unacked(stuck.Name()); n != 0 {
		t.Errorf("%d unacknowledged after a late acknowledgement, want 0", n)
	}
	if n := late.Load(); n != 0 {
		t.Errorf("%d commits by a member that has lost its partition", n)
	}
}

func TestCommitFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	all := events(5, 2)
	r.publish(r.publisher(PublisherConfig{}), all)
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	c := newConsumer(nil)
	cfg := subscribeConfig()
	cfg.Stats = new(outbox.SubscribeStats)
	var log logText
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.subscribe(c, cfg)
	c.waitAll(t, all)
	eventually(t, "the commit fails", func() bool { return cfg.Stats.AckFailed.Load() > 0 })
	if n := cfg.Stats.Acked.Load(); n != 0 {
		t.Errorf("%d count as acknowledged, and the broker has refused all", n)
	}
	fault.Remove()
	eventually(t, "all is committed", func() bool { return r.unacked(c.Name()) == 0 && cfg.Stats.Acked.Load() == int64(len(all)) })
	if text := log.String(); strings.Count(text, "can't be committed") != 1 || !strings.Contains(text, "committed again") {
		t.Errorf("log:\n%s", text)
	}
}

type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestSubscribeRefusesSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	c := newConsumer(nil)
	unknown := outbox.Topology{Events: []outbox.EventTopology{{Type: "other", Topic: topic}}}
	for name, run := range map[string]func(context.Context) error{
		"no brokers": func(ctx context.Context) error { return Subscribe(ctx, Cluster{}, c, subscribeConfig()) },
		"no topic":   func(ctx context.Context) error { return Subscribe(ctx, r.via(), c, SubscribeConfig{}) },
		"unknown type": func(ctx context.Context) error {
			return Subscribe(ctx, r.via(), c, SubscribeConfig{Topology: unknown})
		},
		"both": func(ctx context.Context) error {
			return Subscribe(ctx, r.via(), c, SubscribeConfig{Topology: unknown, Topics: []string{topic}})
		},
		"negative": func(ctx context.Context) error {
			return Subscribe(ctx, r.via(), c, SubscribeConfig{Topics: []string{topic}, Window: -1})
		},
		"missing topic": func(ctx context.Context) error {
			return Subscribe(ctx, r.via(), c, SubscribeConfig{Topics: []string{"nowhere"}})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := run(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestTopologyOfAConsumer reads the topics of the handler's types, in the topology's group.
func TestTopologyOfAConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	c := newConsumer(nil)
	topology := outbox.Topology{
		Events:    []outbox.EventTopology{{Type: brokersuite.TypeA, Topic: topic}, {Type: brokersuite.TypeB, Topic: "nowhere"}},
		Consumers: []outbox.ConsumerTopology{{Name: c.Name(), Group: "the-group", Events: []string{brokersuite.TypeA}}},
	}
	all := events(1, 3)
	r.publish(r.publisher(PublisherConfig{Topology: topology}), all)
	cfg := subscribeConfig()
	cfg.Topology, cfg.Topics = topology, nil
	r.subscribe(c, cfg)
	c.waitAll(t, all)
	eventually(t, "the group has committed", func() bool { return r.unacked("the-group") == 0 })
}

// TestEndBeforeTheGroupIsDivided: a broker that lets a member wait for its share of the group
// does not keep the subscription from ending.
func TestEndBeforeTheGroupIsDivided(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	waiting, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	waits := sync.OnceFunc(func() { close(waiting) })
	r.cluster.ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		waits()
		r.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	cfg := subscribeConfig()
	cfg.CommitTimeout = 100 * time.Millisecond
	stop := r.subscribe(newConsumer(nil), cfg)
	<-waiting
	stop()
}
