package storesuite

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func publishes(t *testing.T, h Harness) {
	ids := h.Write(t, 3)
	b := claim(t, h, NewOwner(), 10)
	if s := settle(t, h, b, all(b, outbox.OutcomePublished)); s.Published != 3 || len(s.Lost) != 0 {
		t.Errorf("settled %+v", s)
	}
	for _, id := range ids {
		if s := wantState(t, h, id, "PUBLISHED"); s.PublishedAt.Before(s.CreatedAt) || s.LeaseOwner != b.Owner.ID.String() {
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
	outcomes := all(b, outbox.OutcomePublished)
	outcomes[3].Kind = outbox.OutcomeRetry
	settle(t, h, b, outcomes)
	if s := settle(t, h, b, outcomes); s.Published != 3 {
		t.Errorf("the second time %+v, want the 3 that are published by this lease", s)
	}
	if s := wantState(t, h, ids[3], "PENDING"); s.Attempts != 1 {
		t.Errorf("%d attempts counted, want 1", s.Attempts)
	}
}

func retries(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomeRetry)
	outcomes[0].Reason = "no room"
	outcomes[1].Backoff = 0
	if s := settle(t, h, b, outcomes); s.Retried != 2 {
		t.Errorf("settled %+v", s)
	}
	s := wantState(t, h, ids[0], "PENDING")
	if s.Attempts != 1 || s.LastError != "no room" || s.LastErrorKind != "failed" || s.LeaseOwner != "" {
		t.Errorf("%+v", s)
	}
	if wait := s.AvailableAt.Sub(s.CreatedAt); wait < time.Hour || wait > 2*time.Hour {
		t.Errorf("due after %v, want the backoff of an hour", wait)
	}
	again := claim(t, h, NewOwner(), 10)
	wantKeys(t, "claimed", keys(again), texts(ids[1:]))
	if again.Events[0].Attempts != 1 {
		t.Errorf("claimed with %d attempts, want 1", again.Events[0].Attempts)
	}
}

func buries(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomeDead)
	outcomes[0].Failure, outcomes[0].Reason = outbox.FailureRejected, "too large"
	if s := settle(t, h, b, outcomes); s.Dead != 1 {
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
	ids := h.Write(t, 3)
	b := claim(t, h, NewOwner(), 10)
	if s := settle(t, h, b, all(b, outbox.OutcomeReleased)); s.Released != 3 {
		t.Errorf("settled %+v", s)
	}
	if s := wantState(t, h, ids[0], "PENDING"); s.Attempts != 0 || s.LeaseOwner != "" {
		t.Errorf("%+v", s)
	}
	again := claim(t, h, NewOwner(), 10)
	if len(again.Events) != 3 {
		t.Errorf("%d events are due at once, want 3", len(again.Events))
	}

	// After a delay, each its own.
	outcomes := all(again, outbox.OutcomeReleased)
	outcomes[1].Backoff = time.Hour
	settle(t, h, again, outcomes)
	for _, e := range claim(t, h, NewOwner(), 10).Events {
		if e.Key == outcomes[1].Key {
			t.Error("an event was claimed before its delay was over")
		}
	}
	for _, id := range ids {
		if s := h.State(t, id); (s.AvailableAt.Sub(s.CreatedAt) > 50*time.Minute) != (id.String() == outcomes[1].Key) || s.Attempts != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A reason that can't be stored must not have published events published again.
// There is none among those that the relay gives; the store is asked all the same.
func publishedDoesNotDependOnFailures(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomePublished)
	outcomes[1].Kind = outbox.OutcomeDead
	h.BreakFailures(t)
	if _, err := h.Store.Settle(t.Context(), b, outcomes); err == nil {
		t.Fatal("the failure was recorded: the fault did not happen")
	}
	wantState(t, h, ids[0], "PUBLISHED")
	wantState(t, h, ids[1], "PUBLISHING")
}

func leavesUnknownLeased(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	b := claim(t, h, NewOwner(), 10)
	settle(t, h, b, all(b, outbox.OutcomeUnknown))
	if s := wantState(t, h, ids[0], "PUBLISHING"); s.Attempts != 0 || s.LeaseOwner != b.Owner.ID.String() {
		t.Errorf("%+v", s)
	}
}

func settlesMixed(t *testing.T, h Harness) {
	ids := h.Write(t, 5)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomePublished)
	outcomes[1].Kind = outbox.OutcomeRetry
	outcomes[2].Kind = outbox.OutcomeDead
	outcomes[3].Kind = outbox.OutcomeReleased
	outcomes[4].Kind = outbox.OutcomeUnknown
	s := settle(t, h, b, outcomes)
	if s.Published != 1 || s.Retried != 1 || s.Dead != 1 || s.Released != 1 || len(s.Lost) != 0 {
		t.Errorf("settled %+v", s)
	}
	for i, state := range []string{"PUBLISHED", "PENDING", "DEAD", "PENDING", "PUBLISHING"} {
		wantState(t, h, ids[i], state)
	}
}

// Neither another owner, nor an older lease of the same one, changes anything.
func staleLeaseChangesNothing(t *testing.T, h Harness) {
	ids := h.Write(t, 1)
	owner := NewOwner()
	stale := claim(t, h, owner, 10)
	h.Expire(t)
	current := claim(t, h, owner, 10)
	stranger := &outbox.Batch{Owner: NewOwner(), Token: current.Token, Events: current.Events}
	before := h.State(t, ids[0])
	for name, b := range map[string]*outbox.Batch{"an older lease": stale, "another owner": stranger} {
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
	if s := settle(t, h, current, all(current, outbox.OutcomePublished)); s.Published != 1 {
		t.Errorf("the current lease settled %+v", s)
	}
	settle(t, h, stale, all(stale, outbox.OutcomeRetry))
	wantState(t, h, ids[0], "PUBLISHED")
}

// What has ended stays as it ended, also for the lease that ended it.
func endedStaysEnded(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomePublished)
	outcomes[1].Kind = outbox.OutcomeDead
	settle(t, h, b, outcomes)
	published, dead := wantState(t, h, ids[0], "PUBLISHED"), wantState(t, h, ids[1], "DEAD")
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
	ids := h.Write(t, 4)
	first := claim(t, h, NewOwner(), 10)
	h.Expire(t)
	second := claim(t, h, NewOwner(), 2)
	s := settle(t, h, first, all(first, outbox.OutcomePublished))
	if s.Published != 2 {
		t.Errorf("settled %+v, want the two that nobody has claimed since", s)
	}
	wantKeys(t, "lost", s.Lost, keys(second))
	_ = ids
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
	if s := settle(t, h, b, all(b, outbox.OutcomePublished)); s.Published != 2 {
		t.Errorf("settled %+v", s)
	}
}

func countsBacklog(t *testing.T, h Harness) {
	if b, err := h.Store.Backlog(t.Context()); err != nil || b.Waiting != 0 || b.OldestDue != 0 {
		t.Errorf("%+v of an empty outbox (%v)", b, err)
	}
	h.Write(t, 5)
	batch := claim(t, h, NewOwner(), 2)
	settle(t, h, batch, all(batch, outbox.OutcomePublished))
	claim(t, h, NewOwner(), 1)
	if b, err := h.Store.Backlog(t.Context()); err != nil || b.Waiting != 3 || b.OldestDue < 0 || b.OldestDue > time.Minute {
		t.Errorf("%+v (%v), want 3 waiting", b, err)
	}
}

func cutsReasons(t *testing.T, h Harness) {
	ids := h.Write(t, 2)
	b := claim(t, h, NewOwner(), 10)
	outcomes := all(b, outbox.OutcomeRetry)
	outcomes[0].Reason = strings.Repeat("ü", 5000)
	outcomes[1].Reason = "bad \xff\xfe bytes"
	settle(t, h, b, outcomes)
	for _, id := range ids {
		if s := h.State(t, id); s.LastError == "" || !utf8.ValidString(s.LastError) {
			t.Errorf("the reason became %q", s.LastError)
		}
	}
}
