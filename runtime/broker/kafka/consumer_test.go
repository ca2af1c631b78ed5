package kafka

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// consumer is a handler that remembers what it has finished.
type consumer struct {
	handle func(ctx context.Context, e outbox.Envelope) error // may be nil

	mu       sync.Mutex
	calls    map[uuid.UUID]int
	finished []outbox.Envelope // in order, repeats included
	done     map[uuid.UUID]bool
	parked   []outbox.Unreadable
	moved    *sync.Cond
}

func newConsumer(handle func(context.Context, outbox.Envelope) error) *consumer {
	c := &consumer{handle: handle, calls: make(map[uuid.UUID]int), done: make(map[uuid.UUID]bool)}
	c.moved = sync.NewCond(&c.mu)
	return c
}

func (c *consumer) Name() string          { return "projector" }
func (c *consumer) EventTypes() []string  { return []string{brokersuite.TypeA} }
func (c *consumer) Limits() outbox.Limits { return outbox.Limits{} }

func (c *consumer) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	c.mu.Lock()
	c.calls[e.ID]++
	c.mu.Unlock()
	if c.handle != nil {
		if err := c.handle(ctx, e); err != nil {
			return outbox.NotHandled, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = append(c.finished, e)
	c.done[e.ID] = true
	c.moved.Broadcast()
	return outbox.Applied, nil
}

func (c *consumer) Park(_ context.Context, m outbox.Unreadable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked = append(c.parked, m)
	c.moved.Broadcast()
	return nil
}

// wait waits for what becomes true with an event finished or a message parked.
func (c *consumer) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(30*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.moved.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() && !late {
		c.moved.Wait()
	}
	if !ok() {
		t.Fatalf("%s: not within 30 s; %d events finished", what, len(c.done))
	}
}

func (c *consumer) waitAll(t *testing.T, all []outbox.Envelope) {
	t.Helper()
	c.wait(t, "every event is handled", func() bool {
		return !slices.ContainsFunc(all, func(e outbox.Envelope) bool { return !c.done[e.ID] })
	})
}

func (c *consumer) isDone(id uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[id]
}

// repeats is how many calls were not the first one of their event.
func (c *consumer) repeats() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, calls := range c.calls {
		n += calls - 1
	}
	return n
}

// audit looks at every commit of offsets that reaches the cluster: none may be beyond a
// record for which finished doesn't hold.
type audit struct {
	t     *testing.T
	first map[topicPartition][]uuid.UUID // by offset

	mu        sync.Mutex
	committed map[topicPartition]int64
	commits   int
}

func (r *rig) audit(finished func(uuid.UUID) bool) *audit {
	r.t.Helper()
	a := &audit{t: r.t, first: make(map[topicPartition][]uuid.UUID), committed: make(map[topicPartition]int64)}
	for _, rec := range r.records() {
		at := topicPartition{rec.Topic, rec.Partition}
		id := uuid.Nil // of what isn't an event
		if e, err := read(rec).envelope(rec.Value); err == nil {
			id = e.ID
		}
		a.first[at] = append(a.first[at], id)
	}
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1,
		When: func(req kmsg.Request) bool {
			if c, ok := req.(*kmsg.OffsetCommitRequest); ok {
				a.look(c, finished)
			}
			return true
		},
	})
	return a
}

func (a *audit) look(req *kmsg.OffsetCommitRequest, finished func(uuid.UUID) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.commits++
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			at := topicPartition{topic, p.Partition}
			for offset := a.committed[at]; offset < p.Offset; offset++ {
				if id := a.first[at][offset]; id != uuid.Nil && !finished(id) {
					a.t.Errorf("partition %d: offset %d is committed, and the record at %d isn't done with", p.Partition, p.Offset, offset)
				}
			}
			a.committed[at] = max(a.committed[at], p.Offset)
		}
	}
}

// sum is how many records the commits cover.
func (a *audit) sum() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, offset := range a.committed {
		n += offset
	}
	return n
}
