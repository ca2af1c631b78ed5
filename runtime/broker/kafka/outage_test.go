package kafka

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// TestOutages publishes 20,000 events, of which each is published until it is
// confirmed, while connections are cut and the cluster is restarted.
func TestOutages(t *testing.T) {
	t.Parallel()
	const (
		total      = 20_000
		aggregates = 200
		batch      = 400
		callers    = 4
	)
	r := newRig(t, 3)
	p := r.publisher(PublisherConfig{AckTimeout: 2 * time.Second})
	var confirmed, failures atomic.Int64
	breaking, stop := context.WithCancel(t.Context())
	var breaker sync.WaitGroup
	breaker.Go(func() {
		for at := int64(total / 20); breaking.Err() == nil; at += total / 20 {
			for confirmed.Load() < at {
				select {
				case <-breaking.Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
			if at/(total/20)%6 == 0 {
				noticed := failures.Load()
				r.cluster.Close()
				for failures.Load() == noticed && breaking.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				r.start()
			} else {
				r.network.cut()
			}
		}
	})
	var publishing sync.WaitGroup
	kinds := make([]atomic.Int64, 5)
	for c := range callers {
		publishing.Go(func() {
			all := events(aggregates/callers, total/aggregates)
			for i := range all {
				all[i].AggregateID += "-" + string(rune('a'+c))
			}
			for len(all) > 0 {
				n := min(batch, len(all))
				rest := all[:0:0]
				for i, err := range p.Publish(t.Context(), all[:n]) {
					if err == nil {
						confirmed.Add(1)
						continue
					}
					kind := outbox.FailureKindOf(err)
					kinds[kind].Add(1)
					failures.Add(1)
					if kind == outbox.FailureRejected || kind == outbox.FailureFailed {
						t.Errorf("an outage is called the event's fault: %v", err)
						return
					}
					rest = append(rest, all[i])
				}
				if len(rest) > 0 {
					time.Sleep(rand.N(20 * time.Millisecond)) // the relay pauses too
				}
				all = append(rest, all[n:]...)
			}
		})
	}
	publishing.Wait()
	stop()
	breaker.Wait()
	t.Logf("by kind: unknown %d, unavailable %d, held back %d", kinds[outbox.FailureUnknown].Load(),
		kinds[outbox.FailureUnavailable].Load(), kinds[outbox.FailureHeldBack].Load())
	if kinds[outbox.FailureUnknown].Load()+kinds[outbox.FailureUnavailable].Load() == 0 {
		t.Error("no outage was noticed: the test shows nothing")
	}
	stored := r.stored()
	seen := make(map[uuid.UUID]bool, total)
	last := make(map[string]int64)
	for _, e := range stored {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if e.AggregateVersion != last[e.AggregateID]+1 {
			t.Fatalf("%s: version %d comes first after version %d", e.AggregateID, e.AggregateVersion, last[e.AggregateID])
		}
		last[e.AggregateID] = e.AggregateVersion
	}
	if len(seen) != total {
		t.Errorf("%d events are stored, want %d", len(seen), total)
	}
	t.Logf("%d repeats", len(stored)-total)
}
