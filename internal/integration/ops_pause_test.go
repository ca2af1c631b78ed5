package integration

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// A pause stops claims within a second. What is leased is marked; what is written waits.
func TestPauseStopsClaims(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		s := operations(t, k, server)
		store, owner := k.newStore(db), storesuite.NewOwner()
		k.writeEvents(t, db, 1, 5)
		leased := claimN(t, store, owner, 100)
		if _, already, err := s.PauseClaims(t.Context(), "a test"); err != nil || already {
			t.Fatal(already, err)
		}
		if p, already, err := s.PauseClaims(t.Context(), "another"); err != nil || !already || p.Reason != "a test" {
			t.Errorf("paused twice: %+v, %v, %v", p, already, err)
		}
		k.writeEvents(t, db, 100, 5)
		if b := claimN(t, k.newStore(db), storesuite.NewOwner(), 100); len(b.Events) != 0 || b.Hold == nil || b.Hold.Reason != "a test" {
			t.Errorf("a new relay claimed %d events: %+v", len(b.Events), b.Hold)
		}
		settleAll(t, store, leased, outbox.OutcomePublished)
		for id := range leased.Events {
			if state := k.stateOrGone(t, db, leased.Events[id].Key); state != "PUBLISHED" && state != "gone" {
				t.Errorf("a leased event is %s", state)
			}
		}
		for deadline := time.Now().Add(30 * time.Second); ; { // within a second; and time for a slow machine
			b := claimN(t, store, owner, 100)
			if b.Hold != nil {
				break
			}
			if len(b.Events) > 0 {
				settleAll(t, store, b, outbox.OutcomeReleased)
			}
			if time.Now().After(deadline) {
				t.Fatal("the relay that ran before goes on claiming")
			}
		}
		if err := store.Release(t.Context(), owner); err != nil { // a running relay does it when they are idle
			t.Fatal(err)
		}
		if p, err := s.ResumeClaims(t.Context()); err != nil || p == nil {
			t.Fatal(p, err)
		}
		if p, err := s.ResumeClaims(t.Context()); err != nil || p != nil {
			t.Errorf("resumed twice: %+v, %v", p, err)
		}
		if n := publishAll(t, k.newStore(db), storesuite.NewOwner()); n != 5 {
			t.Errorf("%d events were published after it, want 5", n)
		}
		if n := count(t, db, "outbox_audit WHERE operation IN ('pause', 'resume')"); n != 2 {
			t.Errorf("%d rows of the audit, want 2", n)
		}
	})
}

func (k kind) stateOrGone(t *testing.T, db *outbox.DB, key string) string {
	t.Helper()
	s, err := k.lookup(t.Context(), db, uuid.MustParse(key))
	if err != nil && k.deletes {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.State
}

// A relay tells its observer of a pause, publishes nothing meanwhile, and goes on after it.
func TestRelayObeysAPause(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		s := operations(t, k, server)
		if _, _, err := s.PauseClaims(t.Context(), "a test"); err != nil {
			t.Fatal(err)
		}
		ids := k.writeEvents(t, db, 1, 3)
		holds := make(chan *outbox.Hold, 10)
		published := &counting{times: map[uuid.UUID]int{}, all: make(chan struct{}), want: len(ids)}
		relay, err := outbox.NewRelay(k.newStore(db), published, &outbox.RelayConfig{
			Logger:   slog.New(slog.DiscardHandler),
			Observer: &outbox.Observer{OnHold: func(h *outbox.Hold) { holds <- h }},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = relay.Run(ctx)
		}()
		if h := <-holds; h == nil || h.Reason != "a test" {
			t.Errorf("the observer was told %+v", h)
		}
		if n := relay.Stats().Claimed; n != 0 {
			t.Errorf("%d events were claimed", n)
		}
		if _, err := s.ResumeClaims(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-published.all
		if h := <-holds; h != nil {
			t.Errorf("the observer was told %+v after it", h)
		}
		stop()
		<-ended
	})
}
