package watermill

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
)

var errDown = errors.New("the broker is down")

// pubSub is a Pub/Sub by Watermill's contract with a broker in memory that keeps its
// messages, knows consumer groups and has faults. Its publisher doesn't heed
// the messages' contexts, as those for Redis and SQS don't.
type pubSub struct {
	outstanding int // messages that a subscription hands out at a time

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, with every change
	topics  map[string][]*message.Message
	groups  map[groupTopic]*progress
	down    bool
	stalled bool
	epoch   int // of the broker's runs
	hook    func(topic string, m *message.Message) error
}

type groupTopic struct{ group, topic string }

// progress is how far a group is in a topic, by index.
type progress struct {
	acked  map[int]bool
	flight map[int]int // the epoch in which it was handed out
	nacks  int
}

func newPubSub(t *testing.T, outstanding int) *pubSub {
	b := &pubSub{
		outstanding: outstanding, changed: make(chan struct{}),
		topics: make(map[string][]*message.Message), groups: make(map[groupTopic]*progress),
	}
	t.Cleanup(func() { b.change(func() { b.stalled = false }) })
	return b
}

func (b *pubSub) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *pubSub) setHook(hook func(topic string, m *message.Message) error) {
	b.change(func() { b.hook = hook })
}

// Publish implements message.Publisher: it returns after all are stored.
func (b *pubSub) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		b.mu.Lock()
		hook, down := b.hook, b.down
		b.mu.Unlock()
		if down {
			return errDown
		}
		if hook != nil {
			if err := hook(topic, m); err != nil {
				return err
			}
		}
		b.put(topic, m)
		b.await(func() bool { return !b.stalled })
		// What a publisher may do with a message that it was given.
		clear(m.Payload)
		clear(m.Metadata)
	}
	return nil
}

// put stores a copy of a message.
func (b *pubSub) put(topic string, m *message.Message) {
	m = m.Copy()
	m.Payload = append(message.Payload(nil), m.Payload...)
	b.change(func() { b.topics[topic] = append(b.topics[topic], m) })
}

// await waits until ok, which is called under the lock.
func (b *pubSub) await(ok func() bool) {
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return
		}
		<-changed
	}
}

func (b *pubSub) stop()  { b.change(func() { b.down = true; b.epoch++ }) }
func (b *pubSub) start() { b.change(func() { b.down = false }) }

func (b *pubSub) stored(topic string) []*message.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*message.Message(nil), b.topics[topic]...)
}

// unacked counts what a group has not acknowledged, in all topics.
func (b *pubSub) unacked(group string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for topic, messages := range b.topics {
		n += len(messages)
		if p := b.groups[groupTopic{group, topic}]; p != nil {
			n -= len(p.acked)
		}
	}
	return n
}

func (b *pubSub) nacks(group, topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups[groupTopic{group, topic}].nacks
}

// flight is how many messages a group was handed and has not ended.
func (b *pubSub) flight(group, topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.groups[groupTopic{group, topic}]; p != nil {
		return len(p.flight)
	}
	return 0
}

func (b *pubSub) Close() error { return nil }

// subscriber is a member of a group.
type subscriber struct {
	*pubSub
	group string
}

func (b *pubSub) subscriber(group string) subscriber { return subscriber{b, group} }

// Subscribe implements message.Subscriber.
func (s subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	key := groupTopic{s.group, topic}
	s.change(func() {
		if s.groups[key] == nil {
			s.groups[key] = &progress{acked: make(map[int]bool), flight: make(map[int]int)}
		}
	})
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for {
			i, epoch, m, changed := s.next(key)
			if m == nil {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
				continue
			}
			mctx, cancel := context.WithCancel(ctx)
			m.SetContext(mctx)
			select {
			case out <- m:
				waiting.Go(func() {
					defer cancel()
					s.settle(ctx, key, i, epoch, m)
				})
			case <-ctx.Done():
				cancel()
				s.giveBack(key, i, epoch)
				return
			}
		}
	}()
	return out, nil
}

// next takes the first message that may be handed out.
func (s subscriber) next(key groupTopic) (i, epoch int, m *message.Message, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.groups[key]
	out := 0
	for _, epoch := range p.flight {
		if epoch == s.epoch {
			out++
		}
	}
	if s.down || out >= s.outstanding {
		return 0, 0, nil, s.changed
	}
	for i, m := range s.topics[key.topic] {
		if epoch, is := p.flight[i]; !p.acked[i] && (!is || epoch != s.epoch) {
			p.flight[i] = s.epoch
			return i, s.epoch, m.Copy(), nil
		}
	}
	return 0, 0, nil, s.changed
}

// settle waits for a message's end. An acknowledgement that comes after a restart of the
// broker, or after the end of the subscription, is lost.
func (s subscriber) settle(ctx context.Context, key groupTopic, i, epoch int, m *message.Message) {
	acked := false
	select {
	case <-m.Acked():
		acked = ctx.Err() == nil
	case <-m.Nacked():
		s.change(func() { s.groups[key].nacks++ })
	case <-ctx.Done():
	}
	if !acked {
		s.giveBack(key, i, epoch)
		return
	}
	s.change(func() {
		if p := s.groups[key]; p.flight[i] == epoch && epoch == s.epoch {
			p.acked[i] = true
			delete(p.flight, i)
		}
	})
}

func (s subscriber) giveBack(key groupTopic, i, epoch int) {
	s.change(func() {
		if p := s.groups[key]; p.flight[i] == epoch {
			delete(p.flight, i)
		}
	})
}
