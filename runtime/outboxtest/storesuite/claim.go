package storesuite

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func claimsInOrder(t *testing.T, h Harness) {
	ids := h.Write(t, 20)
	if h.Ordered { // in no order among aggregates
		ids = append(h.WriteTo(t, 100, 20), ids...)[:20]
	}
	b := claim(t, h, NewOwner(), 100)
	got := slices.DeleteFunc(keys(b), func(key string) bool { return !slices.Contains(texts(ids), key) })
	wantKeys(t, "claimed", got, texts(ids))
	for _, e := range b.Events {
		if e.Invalid != nil || e.Envelope.ID.String() != e.Key || e.Attempts != 0 {
			t.Errorf("%+v", e)
		}
		if e.Envelope.Type == "" || e.Envelope.Source == "" || e.Envelope.AggregateID == "" || len(e.Envelope.Data) == 0 ||
			e.Envelope.SchemaVersion == 0 || time.Since(e.Envelope.Time).Abs() > time.Hour {
			t.Errorf("the envelope is not whole: %+v", e.Envelope)
		}
	}
	if left := time.Until(b.Until); left <= 0 || left > lease {
		t.Errorf("the lease ends in %v, want at most %v", left, lease)
	}
	if b := claim(t, h, NewOwner(), 100); len(b.Events) != 0 {
		t.Errorf("%d events of an outbox where all are leased", len(b.Events))
	}
}

func claimsNoMoreThanAsked(t *testing.T, h Harness) {
	ids := texts(h.Write(t, 10))
	got := drain(t, h, NewOwner(), 3)
	slices.Sort(got)
	slices.Sort(ids)
	wantKeys(t, "claimed", got, ids)
}

func claimsByBytes(t *testing.T, h Harness) {
	h.Write(t, 100)
	owner, total := NewOwner(), 0
	for total < 100 {
		b, err := h.Store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 1000, MaxBytes: 1, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		// Without an order, how large events are is known after the first claim.
		if (total > 0 || h.Ordered) && len(b.Events) > 1 {
			t.Fatalf("%d events for one byte", len(b.Events))
		}
		if len(b.Events) == 0 {
			t.Fatalf("after %d of 100 events: one larger than MaxBytes was not claimed", total)
		}
		total += len(b.Events)
		settle(t, h, b, all(b, outbox.OutcomePublished))
	}
}

func leasedIsNotClaimed(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	owner := NewOwner()
	first := claim(t, h, owner, 1)
	if len(first.Events) != 1 {
		t.Fatalf("%d events were claimed, want 1", len(first.Events))
	}
	claimed := first.Events[0].Envelope.ID
	without(t, claim(t, h, owner, 10), "its owner has it already", claimed)
	without(t, claim(t, h, NewOwner(), 10), "another owner has it", claimed)
	wantState(t, h, claimed, "PUBLISHING")
	_ = ids
}

func expiredIsClaimedAgain(t *testing.T, h Harness) {
	ids := h.Write(t, 3)
	first := claim(t, h, NewOwner(), 10)
	h.Expire(t)
	wantState(t, h, ids[0], "PENDING")
	second := claim(t, h, NewOwner(), 10)
	got, want := keys(second), texts(ids)
	slices.Sort(got)
	slices.Sort(want)
	wantKeys(t, "claimed after the lease", got, want)
	if s := settle(t, h, first, all(first, outbox.OutcomePublished)); len(s.Lost) != 3 || s.Published != 0 {
		t.Errorf("the old lease settled %+v", s)
	}
	if s := settle(t, h, second, all(second, outbox.OutcomePublished)); s.Published != 3 || len(s.Lost) != 0 {
		t.Errorf("the new lease settled %+v", s)
	}
}

// What was claimed under a lease that nobody gave back may have been published.
func tellsOfExpiredLease(t *testing.T, h Harness) {
	wantRepeat := func(b *outbox.Batch, want outbox.RepeatCause) {
		t.Helper()
		if len(b.Events) != 3 {
			t.Fatalf("%d events were claimed, want 3", len(b.Events))
		}
		for _, e := range b.Events {
			if e.Repeat != want || e.Envelope.RepeatCause != "" {
				t.Errorf("event %s: %q, %q on the envelope; want %q", e.Key, e.Repeat, e.Envelope.RepeatCause, want)
			}
		}
	}
	h.WriteTo(t, 1, 3)
	owner := NewOwner()
	first := claim(t, h, owner, 10)
	wantRepeat(first, "")
	settle(t, h, first, all(first, outbox.OutcomeReleased))
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	wantRepeat(claim(t, h, NewOwner(), 10), "") // it was given back
	h.Expire(t)
	taken := claim(t, h, NewOwner(), 10)
	wantRepeat(taken, outbox.RepeatLeaseExpired)
	settle(t, h, taken, all(taken, outbox.OutcomePublished))
	h.WriteTo(t, 1, 3) // what is written after the takeover was with nobody
	wantRepeat(claim(t, h, taken.Owner, 10), "")
}

func concurrentClaimsShareNothing(t *testing.T, h Harness) {
	const events, claimers = 400, 8
	h.Write(t, events)
	var (
		mu      sync.Mutex
		claimed = map[string]int{}
		wg      sync.WaitGroup
	)
	for range claimers {
		wg.Go(func() {
			owner := NewOwner()
			defer func() { _ = h.Store.Release(context.WithoutCancel(t.Context()), owner) }()
			// The others' locks make a claim shorter, and at times empty.
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
				b, err := h.Store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 7, Lease: lease})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, e := range b.Events {
					claimed[e.Key]++
				}
				done := len(claimed) == events
				mu.Unlock()
				if h.Ordered { // a lane is in one batch at a time
					if _, err := h.Store.Settle(t.Context(), b, all(b, outbox.OutcomePublished)); err != nil {
						t.Errorf("settle: %v", err)
					}
				}
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(claimed) != events {
		t.Errorf("%d events were claimed, want %d", len(claimed), events)
	}
	for key, n := range claimed {
		if n != 1 {
			t.Errorf("event %s was claimed %d times under leases that hold", key, n)
		}
	}
}

// An event's id is made before its transaction: a lower one may commit later.
func uncommittedIsNotSeenAndNotSkipped(t *testing.T, h Harness) {
	early, commit := h.WriteOpen(t)
	late := h.Write(t, 1)
	owner := NewOwner()
	wantKeys(t, "while the earlier one is open", drain(t, h, owner, 10), texts(late))
	commit()
	wantKeys(t, "after its commit", drain(t, h, owner, 10), []string{early.String()})
}

func leaseCanBeLookedUp(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	before := wantState(t, h, ids[0], "PENDING")
	if before.LeaseOwner != "" || !before.LeaseUntil.IsZero() {
		t.Errorf("a lease before the claim: %+v", before)
	}
	owner := NewOwner()
	claim(t, h, owner, 1)
	s := wantState(t, h, ids[0], "PUBLISHING")
	if s.LeaseOwner != owner.ID.String() || s.LeaseHost != owner.Host || s.LeasePID != int64(owner.PID) {
		t.Errorf("the lease's owner is %s at %s, %d", s.LeaseOwner, s.LeaseHost, s.LeasePID)
	}
	if left := s.LeaseUntil.Sub(s.CreatedAt); left < lease || left > lease+time.Minute {
		t.Errorf("the lease ends %v after the event was written, want about %v", left, lease)
	}
}

func delaysEvents(t *testing.T, h Harness) {
	owner := NewOwner()
	later := h.WriteLater(t, time.Now().Add(time.Hour))
	past := h.WriteLater(t, time.Now().Add(-time.Hour))
	wantKeys(t, "at once", drain(t, h, owner, 10), texts([]uuid.UUID{past}))
	soon := h.WriteLater(t, time.Now().Add(300*time.Millisecond))
	if s := wantState(t, h, later, "PENDING"); s.AvailableAt.Sub(s.CreatedAt) < 59*time.Minute {
		t.Errorf("due %v after it was written, want an hour", s.AvailableAt.Sub(s.CreatedAt))
	}
	var got []string
	for deadline := time.Now().Add(10 * time.Second); len(got) == 0 && time.Now().Before(deadline); {
		got = drain(t, h, owner, 10) // what is waited for is the server's clock
	}
	wantKeys(t, "later", got, texts([]uuid.UUID{soon}))
}

func checksTheDatabase(t *testing.T, h Harness) {
	checker, ok := h.Store.(outbox.Checker)
	if !ok {
		t.Skip("the store has no check")
	}
	if err := checker.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A relay that stops without a settlement doesn't know what the broker has.
func releaseLeavesUnsettled(t *testing.T, h Harness) {
	ids, owner := h.Write(t, 2), NewOwner()
	if b := claim(t, h, owner, 10); len(b.Events) != 2 {
		t.Fatalf("%d events were claimed, want 2", len(b.Events))
	}
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	without(t, claim(t, h, NewOwner(), 10), "its lease holds", ids...)
}
