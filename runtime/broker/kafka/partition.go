package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/internal/delivery"
)

// partition is one assignment of a partition to this process. When it ends, nothing
// that still runs for it can change what is committed.
type partition struct {
	sub     *subscription
	topic   string
	number  int32
	tracker tracker
	engine  *delivery.Engine
	ctx     context.Context //nolint:containedctx // of the feeding
	cancel  context.CancelFunc
	feeding sync.WaitGroup

	committed kgo.EpochOffset // under the subscription's commitMu, as is acked
	acked     int64

	mu     sync.Mutex
	queue  []*kgo.Record // read, and not yet fed
	next   int64         // offset to be read next; negative while it isn't known
	paused bool          // the client fetches no more
	wake   chan struct{}
}

func (s *subscription) newPartition(topic string, number int32) *partition {
	p := &partition{sub: s, topic: topic, number: number, next: -1, wake: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.engine = delivery.New(s.ctx, delivery.Config{
		Handler: s.handler,
		Slots:   s.slots,
		Window:  s.cfg.Window,
		Hold:    true,
		Backoff: s.cfg.Backoff, MaxBackoff: s.cfg.MaxBackoff,
		Logger: s.cfg.Logger, Stats: s.cfg.Stats,
	})
	p.feeding.Go(p.feed)
	return p
}

// begin notes the committed offset, which is negative when there is none.
func (p *partition) begin(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = at
}

// add hands over what was fetched, which isn't empty, and stops fetching when the handlers don't
// keep up.
func (p *partition) add(f kgo.FetchPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := deleted(p.next, f); n > 0 {
		p.sub.cfg.Logger.Warn("the broker has deleted records that were not read yet; going on from the oldest that it has",
			"topic", p.topic, "partition", p.number, "read_to", p.next, "goes_on_at", f.Records[0].Offset, "deleted", n)
	}
	p.next = f.Records[len(f.Records)-1].Offset + 1
	p.queue = append(p.queue, f.Records...)
	if len(p.queue) >= p.sub.cfg.Window && !p.paused {
		p.paused = true
		p.sub.client.PauseFetchPartitions(p.place())
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// deleted is how many offsets from next on the log doesn't have any more. Other gaps are of
// transactions.
func deleted(next int64, f kgo.FetchPartition) int64 {
	if next < 0 {
		return 0
	}
	return max(min(f.LogStartOffset, f.Records[0].Offset)-next, 0)
}

// take returns all that was added, and lets the client fetch more.
func (p *partition) take() []*kgo.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.queue
	p.queue = nil
	p.resume()
	return all
}

func (p *partition) resume() {
	if p.paused {
		p.paused = false
		p.sub.client.ResumeFetchPartitions(p.place())
	}
}

func (p *partition) place() map[string][]int32 { return map[string][]int32{p.topic: {p.number}} }

// feed hands the records to the engine, one after the other, until the assignment ends.
func (p *partition) feed() {
	for {
		for _, r := range p.take() {
			if !p.submit(r) {
				return
			}
		}
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			return
		}
	}
}

// submit reports false when the assignment has ended. A topic may have events for others,
// which are passed over.
func (p *partition) submit(r *kgo.Record) bool {
	m := read(r)
	if t := m.eventType(); t != "" && !p.sub.handles[t] {
		p.tracker.skip(r)
		return p.ctx.Err() == nil
	}
	out := delivery.Message{Attrs: []any{"topic", p.topic, "partition", p.number, "offset", r.Offset}}
	e, err := m.envelope(r.Value)
	switch {
	case err != nil:
		out.Unreadable = unreadable(r, err)
	case !p.sub.handles[e.Type]:
		p.tracker.skip(r)
		return p.ctx.Err() == nil
	default:
		out.Envelope = e
	}
	at := p.tracker.begin(r)
	out.Ack = func(context.Context) { p.tracker.done(at) }
	return p.engine.Submit(p.ctx, out)
}

// end stops the feeding and the engine. Running handlers get timeout.
func (p *partition) end(timeout time.Duration) {
	p.cancel()
	p.feeding.Wait()
	p.engine.Close(timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = nil
	p.resume()
}
