package storesuite

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func publishes(t *testing.T, h Harness) {
	ids := h.Write(t, 3)
	b := claim(t, h, NewOwner(), 10)
	if s := settle(t, h, b, all(b, outbox.OutcomePublished)); s.Published != 3 || len(s.Lost) != 0 {
		t.Errorf("settled %+v", s)
	}
	for _, id := range ids {
		s := wantState(t, h, id, h.publishedState())
		if s.PublishedAt.Before(s.CreatedAt) || !h.Ordered && !h.Deletes && s.LeaseOwner != b.Owner.ID.String() {
			t.Errorf("published at %v by %s", s.PublishedAt, s.LeaseOwner)
		}
	}
	h.Expire(t)
	if b := claim(t, h, NewOwner(), 10); len(b.Events) != 0 {
		t.Errorf("%d published events were claimed", len(b.Events))
	}
}

// The reply to a settle's COMMIT may be lost; the relay then settles again.
func settlesTwice(t *testing.T, h Harness) {
	ids := h.Write(t, 4)
	b := claim(t, h, NewOwner(), 10)
	mixed := outcomes(b, outbox.OutcomePublished, map[uuid.UUID]outbox.EventOutcome{
		ids[3]: {Kind: outbox.OutcomeRetry, Backoff: time.Hour},
	})
	settle(t, h, b, mixed)
	if s := settle(t, h, b, mixed); s.Published != 3 {
		t.Errorf("the second time %+v, want the 3 that are published by this lease", s)
	}
	if s := wantState(t, h, ids[3], "PENDING"); s.Attempts != 1 {
		t.Errorf("%d attempts counted, want 1", s.Attempts)
	}
}

func retries(t *testing.T, h Harness) {
	ids, owner := h.Write(t, 2), NewOwner()
	b := claim(t, h, owner, 10)
	failed := outbox.EventOutcome{Kind: outbox.OutcomeRetry, Failure: outbox.FailureFailed, Backoff: time.Hour, Reason: "no room"}
	again := failed
	again.Backoff = 0
	if s := settle(t, h, b, outcomes(b, 0, map[uuid.UUID]outbox.EventOutcome{ids[0]: failed, ids[1]: again})); s.Retried != 2 {
		t.Errorf("settled %+v", s)
	}
	s := wantState(t, h, ids[0], "PENDING")
	if s.Attempts != 1 || s.LastError != "no room" || s.LastErrorKind != "failed" || s.LeaseOwner != "" {
		t.Errorf("%+v", s)
	}
	if wait := s.AvailableAt.Sub(s.CreatedAt); wait < time.Hour || wait > 2*time.Hour {
		t.Errorf("due after %v, want the backoff of an hour", wait)
	}
	second := claim(t, h, owner, 10)
	wantKeys(t, "claimed", keys(second), texts(ids[1:]))
	if second.Events[0].Attempts != 1 {
		t.Errorf("claimed with %d attempts, want 1", second.Events[0].Attempts)
	}
}

func buries(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	b := claim(t, h, NewOwner(), 10)
	rejected := all(b, outbox.OutcomeDead)
	rejected[0].Failure, rejected[0].Reason = outbox.FailureRejected, "too large"
	if s := settle(t, h, b, rejected); s.Dead != 1 {
		t.Errorf("settled %+v", s)
	}
	if s := wantState(t, h, ids[0], "DEAD"); s.Attempts != 1 || s.LastErrorKind != "rejected" || s.LastError != "too large" {
		t.Errorf("%+v", s)
	}
	h.Expire(t)
	if b := claim(t, h, NewOwner(), 10); len(b.Events) != 0 {
		t.Error("a dead event was claimed")
	}
}

func releases(t *testing.T, h Harness) {
	ids, owner := h.Write(t, 3), NewOwner()
	b := claim(t, h, owner, 10)
	if s := settle(t, h, b, all(b, outbox.OutcomeReleased)); s.Released != 3 {
		t.Errorf("settled %+v", s)
	}
	if s := wantWaiting(t, h, ids[0]); s.Attempts != 0 {
		t.Errorf("%+v", s)
	}
	if again := claim(t, h, owner, 10); len(again.Events) != 3 {
		t.Errorf("%d events are due at once, want 3", len(again.Events))
	} else {
		// After a delay, each its own.
		late := again.Events[1].Envelope.ID
		settle(t, h, again, outcomes(again, outbox.OutcomeReleased, map[uuid.UUID]outbox.EventOutcome{
			late: {Kind: outbox.OutcomeReleased, Backoff: time.Hour},
		}))
		third := claim(t, h, owner, 10)
		if len(third.Events) != 2 {
			t.Errorf("%d events are due, want 2", len(third.Events))
		}
		without(t, third, "its delay is not over", late)
		settle(t, h, third, all(third, outbox.OutcomeReleased))
	}
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if s := wantState(t, h, id, "PENDING"); s.LeaseOwner != "" || s.Attempts != 0 {
			t.Errorf("after its owner's end: %+v", s)
		}
	}
	if b := claim(t, h, NewOwner(), 10); len(b.Events) < 2 {
		t.Errorf("another owner got %d events", len(b.Events))
	}
}

// A reason that can't be stored must not have published events published again.
// There is none among those that the relay gives; the store is asked all the same.
func publishedDoesNotDependOnFailures(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	h.BreakFailures(t)
	_, err := h.Store.Settle(t.Context(), b, outcomes(b, outbox.OutcomePublished, map[uuid.UUID]outbox.EventOutcome{
		ids[1]: {Kind: outbox.OutcomeDead},
	}))
	if err == nil {
		t.Fatal("the failure was recorded: the fault did not happen")
	}
	wantState(t, h, ids[0], h.publishedState())
	wantState(t, h, ids[1], "PUBLISHING")
}

func leavesUnknownToTheLeasesEnd(t *testing.T, h Harness) {
	ids, owner := h.Write(t, 1), NewOwner()
	b := claim(t, h, owner, 10)
	settle(t, h, b, all(b, outbox.OutcomeUnknown))
	if s := wantWaiting(t, h, ids[0]); s.Attempts != 0 {
		t.Errorf("%+v", s)
	}
	without(t, claim(t, h, owner, 10), "its lease holds", ids[0])
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	without(t, claim(t, h, NewOwner(), 10), "its lease holds", ids[0])
	h.Expire(t)
	b = claim(t, h, NewOwner(), 10)
	wantKeys(t, "after the lease's end", keys(b), texts(ids))
	if b.Events[0].Attempts != 0 {
		t.Errorf("%d attempts were counted", b.Events[0].Attempts)
	}
}

func settlesMixed(t *testing.T, h Harness) {
	ids := h.Write(t, 5)
	b := claim(t, h, NewOwner(), 10)
	s := settle(t, h, b, outcomes(b, outbox.OutcomePublished, map[uuid.UUID]outbox.EventOutcome{
		ids[1]: {Kind: outbox.OutcomeRetry, Backoff: time.Hour},
		ids[2]: {Kind: outbox.OutcomeDead},
		ids[3]: {Kind: outbox.OutcomeReleased},
		ids[4]: {Kind: outbox.OutcomeUnknown},
	}))
	if s.Published != 1 || s.Retried != 1 || s.Dead != 1 || s.Released != 1 || len(s.Lost) != 0 {
		t.Errorf("settled %+v", s)
	}
	wantState(t, h, ids[0], h.publishedState())
	wantState(t, h, ids[1], "PENDING")
	wantState(t, h, ids[2], "DEAD")
	wantWaiting(t, h, ids[3])
	wantWaiting(t, h, ids[4])
}

// Neither another owner, nor an older lease of the same one, changes anything.
func staleLeaseChangesNothing(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	owner, other := NewOwner(), NewOwner()
	stale := claim(t, h, owner, 10)
	h.Expire(t)
	between := claim(t, h, other, 10)
	settle(t, h, between, all(between, outbox.OutcomeReleased))
	if err := h.Store.Release(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	current := claim(t, h, owner, 10)
	wantKeys(t, "claimed again", keys(current), texts(ids))
	stranger := *current
	stranger.Owner = NewOwner()
	before := h.State(t, ids[0])
	for name, b := range map[string]*outbox.Batch{"an older lease": stale, "another owner": &stranger} {
		for _, kind := range []outbox.OutcomeKind{
			outbox.OutcomePublished, outbox.OutcomeReleased, outbox.OutcomeRetry, outbox.OutcomeDead, outbox.OutcomeUnknown,
		} {
			s := settle(t, h, b, all(b, kind))
			if s.Published+s.Released+s.Retried+s.Dead != 0 {
				t.Errorf("%s settled %+v with outcome %d", name, s, kind)
			}
			if lost := kind != outbox.OutcomeReleased && kind != outbox.OutcomeUnknown; lost != (len(s.Lost) == 1) {
				t.Errorf("%s, outcome %d: lost %v", name, kind, s.Lost)
			}
			if after := h.State(t, ids[0]); after != before {
				t.Errorf("%s, outcome %d changed the event:\n%+v\n%+v", name, kind, before, after)
			}
		}
		if n, err := h.Store.Renew(t.Context(), b, 10*lease); err != nil || n != 0 {
			t.Errorf("%s renewed %d leases (%v)", name, n, err)
		}
	}
	without(t, claim(t, h, owner, 10), "it is in a batch", ids[0])
	if s := settle(t, h, current, all(current, outbox.OutcomePublished)); s.Published != 1 {
		t.Errorf("the current lease settled %+v", s)
	}
	settle(t, h, stale, all(stale, outbox.OutcomeRetry))
	wantState(t, h, ids[0], h.publishedState())
}

// What has ended stays as it ended, also for the lease that ended it.
func endedStaysEnded(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	settle(t, h, b, outcomes(b, outbox.OutcomePublished, map[uuid.UUID]outbox.EventOutcome{ids[1]: {Kind: outbox.OutcomeDead}}))
	published, dead := wantState(t, h, ids[0], h.publishedState()), wantState(t, h, ids[1], "DEAD")
	for _, kind := range []outbox.OutcomeKind{outbox.OutcomePublished, outbox.OutcomeReleased, outbox.OutcomeRetry, outbox.OutcomeDead} {
		settle(t, h, b, all(b, kind))
		if after := h.State(t, ids[0]); after != published {
			t.Errorf("outcome %d changed a published event:\n%+v\n%+v", kind, published, after)
		}
		if after := h.State(t, ids[1]); after != dead {
			t.Errorf("outcome %d changed a dead event:\n%+v\n%+v", kind, dead, after)
		}
	}
	if n, err := h.Store.Renew(t.Context(), b, lease); err != nil || n != 0 {
		t.Errorf("renewed %d leases of events that have ended (%v)", n, err)
	}
}

func partlyLostLease(t *testing.T, h Harness) {
	h.Write(t, 4)
	first := claim(t, h, NewOwner(), 10)
	h.Expire(t)
	second := claim(t, h, NewOwner(), 2)
	s := settle(t, h, first, all(first, outbox.OutcomePublished))
	if s.Published+len(s.Lost) != 4 || len(s.Lost) < len(second.Events) || len(second.Events) == 0 {
		t.Errorf("settled %+v, want all but those published that another has leased since", s)
	}
	for _, key := range keys(second) {
		if !slices.Contains(s.Lost, key) {
			t.Errorf("%s is leased to another, and not lost", key)
		}
	}
	if s := settle(t, h, second, all(second, outbox.OutcomePublished)); s.Published != len(second.Events) {
		t.Errorf("the second lease settled %+v", s)
	}
}

func renews(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	before := h.State(t, ids[0]).LeaseUntil
	if n, err := h.Store.Renew(t.Context(), b, 2*lease); err != nil || n != 2 {
		t.Fatalf("renewed %d, %v", n, err)
	}
	if more := h.State(t, ids[0]).LeaseUntil.Sub(before); more < lease {
		t.Errorf("the lease is %v longer, want at least %v", more, lease)
	}
	if b := claim(t, h, NewOwner(), 10); len(b.Events) != 0 {
		t.Error("events under a renewed lease were claimed")
	}
	if s := settle(t, h, b, all(b, outbox.OutcomeReleased)); s.Released != 2 {
		t.Errorf("settled %+v", s)
	}
	b = claim(t, h, b.Owner, 10)
	if left := time.Until(b.Until); h.Ordered && left < 3*lease/2 {
		t.Errorf("the lease is said to end in %v, after a renewal for %v", left, 2*lease)
	}
	if s := settle(t, h, b, all(b, outbox.OutcomePublished)); s.Published != 2 {
		t.Errorf("settled %+v", s)
	}
}

// A row that a person has changed in the meantime was not published by the batch.
func changedByHand(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	h.Bury(t, ids[0])
	s := settle(t, h, b, all(b, outbox.OutcomePublished))
	if s.Published != 1 || !slices.Equal(s.Lost, texts(ids[:1])) {
		t.Errorf("settled %+v, want the buried one lost", s)
	}
	wantState(t, h, ids[0], "DEAD")
	wantState(t, h, ids[1], h.publishedState())
}

func countsBacklog(t *testing.T, h Harness) {
	if b, err := h.Store.Backlog(t.Context()); err != nil || b.Waiting != 0 || b.OldestDue != 0 {
		t.Errorf("%+v of an empty outbox (%v)", b, err)
	}
	h.Write(t, 5)
	batch := claim(t, h, NewOwner(), 2)
	settle(t, h, batch, all(batch, outbox.OutcomePublished))
	claim(t, h, NewOwner(), 1)
	if b, err := h.Store.Backlog(t.Context()); err != nil || b.Waiting != 3 || b.OldestDue < 0 || b.OldestDue > time.Minute || b.Dead != 0 {
		t.Errorf("%+v (%v), want 3 waiting", b, err)
	}
	h.Bury(t, h.Write(t, 1)[0])
	if b, err := h.Store.Backlog(t.Context()); err != nil || b.Waiting != 3 || b.Dead != 1 {
		t.Errorf("%+v (%v), want 3 waiting and 1 dead", b, err)
	}
}

func cutsReasons(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	failed := all(b, outbox.OutcomeRetry)
	failed[0].Reason = strings.Repeat("ü", 5000)
	failed[1].Reason = "bad \xff\xfe bytes"
	settle(t, h, b, failed)
	for _, id := range ids {
		if s := h.State(t, id); s.LastError == "" || !utf8.ValidString(s.LastError) {
			t.Errorf("the reason became %q", s.LastError)
		}
	}
}
