package outbox_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// stamps notes what each message was stamped with, by delivery.
type stamps struct {
	mu  sync.Mutex
	all []outbox.RepeatCause
}

func (s *stamps) publisher(answer func(call int) error) outbox.Publisher {
	return publisherFunc(func(_ context.Context, e outbox.Envelope) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, e.RepeatCause)
		return answer(len(s.all))
	})
}

func (s *stamps) check(t *testing.T, want ...outbox.RepeatCause) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != len(want) {
		t.Fatalf("published as %q, want %q", s.all, want)
	}
	for i := range want {
		if s.all[i] != want[i] {
			t.Errorf("published as %q, want %q", s.all, want)
		}
	}
}

func TestRelayStampsWhatItHandedOverBefore(t *testing.T) {
	away, unknown := outbox.PublishUnavailable(errors.New("away")), outbox.PublishUnknown(errors.New("cut off"))
	for name, c := range map[string]struct {
		first error
		want  []outbox.RepeatCause
	}{
		"unknown":     {unknown, []outbox.RepeatCause{"", outbox.RepeatConfirmLost}},
		"unavailable": {away, []outbox.RepeatCause{"", ""}},
		"failed":      {outbox.PublishFailed(errors.New("no")), []outbox.RepeatCause{"", ""}},
		"confirmed":   {nil, []outbox.RepeatCause{""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s stamps
				_, stop := startRelay(t, newMemStore(1), s.publisher(func(call int) error {
					if call == 1 {
						return c.first
					}
					return nil
				}), outbox.RelayConfig{})
				time.Sleep(2 * time.Minute)
				stop()
				s.check(t, c.want...)
			})
		})
	}
}

// A confirm that could not be recorded is as good as lost.
func TestRelayStampsWhatItCouldNotMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1)
		var broken atomic.Bool
		away := func() error {
			if broken.Load() {
				return errors.New("away")
			}
			return nil
		}
		store.settleErr = func(int) error { return away() }
		store.renewErr = away
		var s stamps
		_, stop := startRelay(t, store, s.publisher(func(call int) error { broken.Store(call == 1); return nil }), outbox.RelayConfig{})
		time.Sleep(2 * time.Minute)
		stop()
		s.check(t, "", outbox.RepeatConfirmLost)
	})
}

// What the store says is passed on, and what this relay knows itself stands before it.
func TestRelayStampsWhatTheStoreTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(1)
		store.rows[0].event.Repeat = outbox.RepeatLeaseExpired
		var s stamps
		_, stop := startRelay(t, store, s.publisher(func(call int) error {
			if call == 1 {
				return outbox.PublishUnknown(errors.New("cut off"))
			}
			return nil
		}), outbox.RelayConfig{})
		time.Sleep(2 * time.Minute)
		stop()
		s.check(t, outbox.RepeatLeaseExpired, outbox.RepeatConfirmLost)
	})
}

func TestRepeatCauseOnTheWire(t *testing.T) {
	read := func(attributes map[string]string) outbox.Envelope {
		t.Helper()
		e, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := testEnvelope()
	attributes := maps.Collect(e.Attributes())
	if _, has := attributes["repeatcause"]; has {
		t.Error("a message that is no repeat has the attribute")
	}
	e.RepeatCause = outbox.RepeatConfirmLost
	attributes = maps.Collect(e.Attributes())
	if got := read(attributes); got.RepeatCause != outbox.RepeatConfirmLost {
		t.Errorf("read %q", got.RepeatCause)
	}
	for _, foreign := range []string{"unknown", "redrive", "anything", "lease-expired "} {
		attributes["repeatcause"] = foreign
		if got := read(attributes); got.RepeatCause != "" {
			t.Errorf("%q was read as %q", foreign, got.RepeatCause)
		}
	}
}
