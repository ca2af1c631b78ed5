package storesuite

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func claimsInOrder(t *testing.T, h Harness) {
	ids := h.Write(t, 20)
	b := claim(t, h, NewOwner(), 100)
	wantKeys(t, "claimed", keys(b), texts(ids))
	for i, e := range b.Events {
		if e.Invalid != nil || e.Envelope.ID != ids[i] || e.Attempts != 0 {
			t.Errorf("%+v", e)
		}
		if e.Envelope.Type == "" || e.Envelope.Source == "" || e.Envelope.AggregateID == "" || len(e.Envelope.Data) == 0 ||
			e.Envelope.SchemaVersion == 0 || time.Since(e.Envelope.Time).Abs() > time.Hour {
			t.Errorf("the envelope is not whole: %+v", e.Envelope)
		}
	}
	if b := claim(t, h, NewOwner(), 100); len(b.Events) != 0 {
		t.Errorf("%d events of an outbox where all are leased", len(b.Events))
	}
}

func claimsNoMoreThanAsked(t *testing.T, h Harness) {
	ids := h.Write(t, 10)
	wantKeys(t, "claimed", keys(claim(t, h, NewOwner(), 3)), texts(ids[:3]))
	wantKeys(t, "claimed next", keys(claim(t, h, NewOwner(), 3)), texts(ids[3:6]))
}

func claimsByBytes(t *testing.T, h Harness) {
	h.Write(t, 200)
	owner, total := NewOwner(), 0
	for range 200 {
		b, err := h.Store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 1000, MaxBytes: 1, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		// How large events are is known after the first claim.
		if total > 0 && len(b.Events) > 1 {
			t.Fatalf("%d events for one byte", len(b.Events))
		}
		if len(b.Events) == 0 {
			break
		}
		total += len(b.Events)
	}
	if total == 0 {
		t.Error("an event larger than MaxBytes was never claimed")
	}
}

func leasedIsNotClaimed(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	owner := NewOwner()
	wantKeys(t, "claimed", keys(claim(t, h, owner, 1)), texts(ids[:1]))
	wantKeys(t, "claimed by the same owner", keys(claim(t, h, owner, 10)), texts(ids[1:]))
	wantState(t, h, ids[0], "PUBLISHING")
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
	wantKeys(t, "while the earlier one is open", keys(claim(t, h, NewOwner(), 10)), texts(late))
	commit()
	wantKeys(t, "after its commit", keys(claim(t, h, NewOwner(), 10)), []string{early.String()})
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
