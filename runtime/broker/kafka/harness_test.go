package kafka

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
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

const topic = "orders"

// view looks at a topic of a cluster by a client of its own.
type view struct {
	t       *testing.T
	brokers []string
	topic   string
	admin   *kgo.Client
}

func newView(t *testing.T, brokers []string, topic string) *view {
	t.Helper()
	admin, err := (Cluster{Brokers: brokers, Options: quick()}).client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return &view{t: t, brokers: brokers, topic: topic, admin: admin}
}

// rig is a fake cluster with the topic orders, and a network to it that can be broken.
type rig struct {
	*view
	dir     string
	ports   []int
	cluster *kfake.Cluster
	network *network
}

func newRig(t *testing.T, partitions int32) *rig {
	t.Helper()
	r := &rig{view: &view{t: t}, dir: t.TempDir(), network: newNetwork()}
	r.start(kfake.SeedTopics(partitions, topic))
	t.Cleanup(func() { r.cluster.Close() })
	for _, addr := range r.cluster.ListenAddrs() {
		r.ports = append(r.ports, portOf(t, addr))
	}
	r.view = newView(t, r.cluster.ListenAddrs(), topic)
	return r
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, ok := cutLast(addr, ':')
	n, err := strconv.Atoi(port)
	if !ok || err != nil {
		t.Fatalf("address %q", addr)
	}
	return n
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := bytes.LastIndexByte([]byte(s), sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// start runs the cluster on its folder; again, on the ports it had.
func (r *rig) start(opts ...kfake.Opt) {
	r.t.Helper()
	opts = append(opts, kfake.NumBrokers(1), kfake.DataDir(r.dir),
		kfake.GroupMinSessionTimeout(100*time.Millisecond),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if r.ports != nil {
		opts = append(opts, kfake.Ports(r.ports...))
	}
	var err error
	for range 500 {
		if r.cluster, err = kfake.NewCluster(opts...); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // its ports may not be free yet
	}
	r.t.Fatalf("start the cluster: %v", err)
}

// quick has franz-go try again within milliseconds.
func quick() []kgo.Opt {
	return []kgo.Opt{
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	}
}

// via is the cluster through the breakable network. Batches aren't compressed, so that
// events can be found in them.
func (r *rig) via() Cluster { return through(r.network, r.brokers) }

func through(n *network, brokers []string) Cluster {
	return Cluster{Brokers: brokers, Options: append(quick(),
		kgo.Dialer(n.dial),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.HeartbeatInterval(50*time.Millisecond),
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.SessionTimeout(2*time.Second),
		kgo.AutoCommitInterval(100*time.Millisecond), // which must not take effect
	)}
}

func toTopic(outbox.Envelope) string { return topic }

func (r *rig) publisher(cfg PublisherConfig) *Publisher {
	r.t.Helper()
	if cfg.Topic == nil && cfg.Topology.Events == nil {
		cfg.Topic = toTopic
	}
	p, err := NewPublisher(r.via(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// refuse answers produce requests that hold the event, for as long as count
// says; -1 for ever.
func (r *rig) refuse(err *kerr.Error, count int, id uuid.UUID) *kfake.FaultHandle {
	return r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: count,
		When: func(req kmsg.Request) bool { return id == uuid.Nil || holds(req, id) },
	})
}

func holds(req kmsg.Request, id uuid.UUID) bool {
	p, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return false
	}
	for _, t := range p.Topics {
		for _, part := range t.Partitions {
			if bytes.Contains(part.Records, []byte(id.String())) {
				return true
			}
		}
	}
	return false
}

// stored decodes everything that the topic holds, partition by partition.
func (v *view) stored() []outbox.Envelope {
	v.t.Helper()
	var all []outbox.Envelope
	for _, rec := range v.records() {
		e, err := read(rec).envelope(rec.Value)
		if err != nil {
			v.t.Fatalf("partition %d, offset %d: %v", rec.Partition, rec.Offset, err)
		}
		all = append(all, e)
	}
	return all
}

// put stores a record as it is.
func (v *view) put(body []byte, headers map[string]string) {
	v.t.Helper()
	r := &kgo.Record{Topic: v.topic, Value: body}
	for name, value := range headers {
		r.Headers = append(r.Headers, header(name, value))
	}
	if err := v.admin.ProduceSync(v.t.Context(), r).FirstErr(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *view) records() (all []*kgo.Record) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 30*time.Second)
	defer cancel()
	ends, err := kadm.NewClient(v.admin).ListEndOffsets(ctx, v.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		v.t.Fatalf("end offsets: %v", err)
	}
	offsets := make(map[int32]kgo.Offset)
	var want int64
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			offsets[o.Partition] = kgo.NewOffset().AtStart()
			want += o.Offset
		}
	})
	if want == 0 {
		return nil
	}
	reader, err := (Cluster{Brokers: v.brokers, Options: quick()}).client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{v.topic: offsets}))
	if err != nil {
		v.t.Fatal(err)
	}
	defer reader.Close()
	byPartition := make(map[int32][]*kgo.Record)
	for n := int64(0); n < want; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			v.t.Fatalf("read back: %d of %d records", n, want)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			byPartition[rec.Partition] = append(byPartition[rec.Partition], rec)
			n++
		})
	}
	for p := range int32(len(ends[v.topic])) { //nolint:gosec // few
		all = append(all, byPartition[p]...)
	}
	return all
}

// unacked is what the group has not committed, -1 while the broker doesn't answer.
func (v *view) unacked(group string) int {
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Second)
	defer cancel()
	admin := kadm.NewClient(v.admin)
	ends, err := admin.ListEndOffsets(ctx, v.topic)
	if err != nil || ends.Error() != nil {
		return -1
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil || committed.Error() != nil {
		return -1
	}
	n := 0
	ends.Each(func(end kadm.ListedOffset) {
		n += int(end.Offset)
		if c, ok := committed.Lookup(v.topic, end.Partition); ok && c.At > 0 {
			n -= int(c.At)
		}
	})
	return n
}

// subscribeConfig repeats within milliseconds and says nothing.
func subscribeConfig() SubscribeConfig {
	return SubscribeConfig{
		Topics: []string{topic}, CommitInterval: 20 * time.Millisecond, CommitTimeout: time.Second,
		Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// subscribe runs Subscribe in the background until the test ends, or stop is called.
func (r *rig) subscribe(h outbox.Handler, cfg SubscribeConfig) (stop func()) {
	r.t.Helper()
	return r.subscribeVia(r.via(), h, cfg)
}

func (r *rig) subscribeVia(cluster Cluster, h outbox.Handler, cfg SubscribeConfig) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Subscribe(ctx, cluster, h, cfg) }()
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

// eventually polls what no signal tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// events makes n events each of so many aggregates, in turns.
func events(aggregates, n int) []outbox.Envelope {
	all := make([]outbox.Envelope, 0, aggregates*n)
	for v := range n {
		for a := range aggregates {
			all = append(all, brokersuite.Event(fmt.Sprintf("order-%d", a), int64(v+1)))
		}
	}
	return all
}

func (r *rig) publish(p outbox.Publisher, all []outbox.Envelope) {
	r.t.Helper()
	for i, err := range p.Publish(r.t.Context(), all) {
		if err != nil {
			r.t.Fatalf("event %d: %v", i, err)
		}
	}
}
