package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// A handler learns that a message was delivered before: by the broker's count, or by the
// engine itself, which repeats what it holds and what found the database away.
func TestHandlersLearnOfRedeliveries(t *testing.T) {
	for name, c := range map[string]struct {
		deliveries int
		hold       bool
		first      error // of the handler
		want       []bool
	}{
		"the first":           {1, false, nil, []bool{false}},
		"nobody counts":       {0, false, nil, []bool{false}},
		"the second":          {2, false, nil, []bool{true}},
		"held after an error": {0, true, errScripted, []bool{false, true}},
		"after a pause":       {1, false, away(), []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(cfg *Config) { cfg.Hold = c.hold })
				var got []bool
				r.handle = func(ctx context.Context, _ outbox.Envelope) error {
					if got = append(got, outbox.IsRedelivery(ctx)); len(got) == 1 {
						return c.first
					}
					return nil
				}
				r.engine.Submit(t.Context(), Message{
					Envelope: outbox.Envelope{ID: outbox.NewEventID(), AggregateID: "1"}, Deliveries: c.deliveries,
					Ack: func(context.Context) {}, Again: func(context.Context, time.Duration) {},
				})
				time.Sleep(time.Minute)
				r.engine.Close(time.Second)
				if len(got) != len(c.want) {
					t.Fatalf("handled %d times, want %d", len(got), len(c.want))
				}
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("redeliveries %v, want %v", got, c.want)
					}
				}
			})
		})
	}
}
