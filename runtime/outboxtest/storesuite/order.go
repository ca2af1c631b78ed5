package storesuite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// keepsOrder writes to aggregates in turn and drains in small batches.
func keepsOrder(t *testing.T, h Harness) {
	const aggregates, rounds = 7, 12
	want := make([][]string, aggregates)
	for range rounds {
		for a := range aggregates {
			want[a] = append(want[a], texts(h.WriteTo(t, a, 2))...)
		}
	}
	got := drain(t, h, NewOwner(), 5)
	if len(got) != aggregates*rounds*2 {
		t.Errorf("%d events were claimed, want %d", len(got), aggregates*rounds*2)
	}
	for a := range aggregates {
		of := slices.DeleteFunc(slices.Clone(got), func(key string) bool { return !slices.Contains(want[a], key) })
		wantKeys(t, fmt.Sprintf("of aggregate %d", a), of, want[a])
	}
}

func oneBatchAnAggregate(t *testing.T, h Harness) {
	ids, owner := h.WriteTo(t, 1, 3), NewOwner()
	first := claim(t, h, owner, 1)
	wantKeys(t, "first", keys(first), texts(ids[:1]))
	without(t, claim(t, h, owner, 10), "an earlier event of its aggregate is in a batch", ids...)
	without(t, claim(t, h, NewOwner(), 10), "its aggregate is another owner's", ids...)
	settle(t, h, first, all(first, outbox.OutcomePublished))
	wantKeys(t, "then", drain(t, h, owner, 10), texts(ids[1:]))
}

// headFails claims two aggregates, fails the first event of one of them, and
// returns the ids of both.
func headFails(t *testing.T, h Harness, owner outbox.Owner, head outbox.EventOutcome) (failing, other []uuid.UUID) {
	t.Helper()
	failing, other = h.WriteTo(t, 1, 3), h.WriteTo(t, 2, 3)
	b := claim(t, h, owner, 100)
	if len(b.Events) != 6 {
		t.Fatalf("%d events were claimed, want 6", len(b.Events))
	}
	outcomes := outcomes(b, outbox.OutcomePublished, map[uuid.UUID]outbox.EventOutcome{
		failing[0]: head,
		failing[1]: {Kind: outbox.OutcomeReleased}, // held back
		failing[2]: {Kind: outbox.OutcomeReleased},
	})
	if s := settle(t, h, b, outcomes); s.Published != 3 {
		t.Errorf("settled %+v, want the other aggregate published", s)
	}
	return failing, other
}

func waitingHead(t *testing.T, h Harness) {
	owner := NewOwner()
	failing, _ := headFails(t, h, owner, outbox.EventOutcome{Kind: outbox.OutcomeRetry, Backoff: time.Hour})
	more := h.WriteTo(t, 2, 2)
	wantKeys(t, "beside the waiting head", drain(t, h, owner, 100), texts(more))
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	// Another owner knows it from the table.
	more = h.WriteTo(t, 2, 2)
	wantKeys(t, "beside the waiting head, by another owner", drain(t, h, NewOwner(), 100), texts(more))
	for _, id := range failing {
		wantWaiting(t, h, id)
	}
}

func releasedHead(t *testing.T, h Harness) {
	owner := NewOwner()
	failing, _ := headFails(t, h, owner, outbox.EventOutcome{Kind: outbox.OutcomeReleased, Backoff: 200 * time.Millisecond})
	without(t, claim(t, h, owner, 100), "the head's delay is not over", failing...)
	var got []string
	for deadline := time.Now().Add(10 * time.Second); len(got) < 3 && time.Now().Before(deadline); {
		got = append(got, drain(t, h, owner, 100)...)
	}
	wantKeys(t, "after the delay", got, texts(failing))
}

func deadHead(t *testing.T, h Harness) {
	owner := NewOwner()
	failing, _ := headFails(t, h, owner, outbox.EventOutcome{Kind: outbox.OutcomeDead})
	wantKeys(t, "behind the dead head", drain(t, h, owner, 100), texts(failing[1:]))
}

func unknownHead(t *testing.T, h Harness) {
	owner := NewOwner()
	failing, _ := headFails(t, h, owner, outbox.EventOutcome{Kind: outbox.OutcomeUnknown})
	without(t, claim(t, h, owner, 100), "the broker may have the head", failing...)
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	without(t, claim(t, h, NewOwner(), 100), "the broker may have the head", failing...)
	h.Expire(t)
	wantKeys(t, "after the lease's end", drain(t, h, NewOwner(), 100), texts(failing))
}

func handsOver(t *testing.T, h Harness) {
	ids, owner := h.WriteTo(t, 1, 6), NewOwner()
	first := claim(t, h, owner, 2)
	wantKeys(t, "first", keys(first), texts(ids[:2]))
	settle(t, h, first, all(first, outbox.OutcomePublished))
	if err := h.Store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	second := NewOwner()
	b := claim(t, h, second, 2)
	wantKeys(t, "then", keys(b), texts(ids[2:4]))
	// Its lease ends unsettled: the next one begins where it was.
	h.Expire(t)
	wantKeys(t, "at last", drain(t, h, NewOwner(), 10), texts(ids[2:]))
}

// A second relay gets its share of the lanes, without the first one's stop.
func shares(t *testing.T, h Harness) {
	h.Write(t, 400)
	first, second := NewOwner(), NewOwner()
	take := func(o outbox.Owner) int {
		b := claim(t, h, o, 1)
		settle(t, h, b, all(b, outbox.OutcomeReleased))
		return len(b.Events)
	}
	if take(first) != 1 {
		t.Fatal("the first relay got nothing")
	}
	for deadline := time.Now().Add(20 * time.Second); take(second) == 0; take(first) {
		if time.Now().After(deadline) {
			t.Fatal("the second relay never got a lane")
		}
	}
}

// The events behind a waiting head are many more than a claim reads.
func manyBlocked(t *testing.T, h Harness) {
	owner := NewOwner()
	failing := h.WriteTo(t, 1, 1)
	b := claim(t, h, owner, 10)
	settle(t, h, b, outcomes(b, 0, map[uuid.UUID]outbox.EventOutcome{failing[0]: {Kind: outbox.OutcomeRetry, Backoff: time.Hour}}))
	h.WriteTo(t, 1, 300)
	others := texts(h.Write(t, 200))
	for _, o := range []outbox.Owner{owner, NewOwner()} {
		var got []string
		for deadline := time.Now().Add(20 * time.Second); len(got) < len(others) && time.Now().Before(deadline); {
			got = append(got, drain(t, h, o, 50)...)
		}
		slices.Sort(got)
		slices.Sort(others)
		wantKeys(t, "of other aggregates", got, others)
		if err := h.Store.Release(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		others = texts(h.Write(t, 200))
	}
}

// After a claim whose COMMIT was answered to nobody, the run leases what it doesn't
// know of. It must not keep that from everybody until the lease ends.
func strayLease(t *testing.T, h Harness) {
	ids, owner := h.WriteTo(t, 1, 2), NewOwner()
	old, stale := h.Store, claim(t, h, owner, 10)
	h.Store = h.Reopen(t)
	var current *outbox.Batch
	for deadline := time.Now().Add(10 * time.Second); current == nil || len(current.Events) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the lanes stay leased to nobody")
		}
		current = claim(t, h, owner, 10)
	}
	wantKeys(t, "claimed", keys(current), texts(ids))
	if s, err := old.Settle(t.Context(), stale, all(stale, outbox.OutcomePublished)); err != nil || len(s.Lost) != 2 {
		t.Errorf("the lease that was given up settled %+v, %v", s, err)
	}
	if s := settle(t, h, current, all(current, outbox.OutcomePublished)); s.Published != 2 {
		t.Errorf("settled %+v", s)
	}
}
