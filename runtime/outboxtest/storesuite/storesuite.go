// Package storesuite is what every outbox.Store must do. A store for a new
// database, or a new kind of lease, is done when it passes.
package storesuite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Harness is a store on an empty outbox, with what the suite needs to look at it.
type Harness struct {
	Store outbox.Store

	// Reopen returns another store on the same outbox, as another process has it.
	Reopen func(t *testing.T) outbox.Store

	// Ordered says that the store keeps the order of an aggregate's events.
	Ordered bool

	// Deletes says that a published event is deleted.
	Deletes bool

	// Write commits n events, each of an aggregate of its own, and returns their
	// ids in the order in which they are due.
	Write func(t *testing.T, n int) []uuid.UUID

	// WriteTo commits n events of one aggregate, in the order of the ids returned.
	WriteTo func(t *testing.T, aggregate, n int) []uuid.UUID

	// WriteOpen writes an event in a transaction that stays open until commit is called.
	WriteOpen func(t *testing.T) (id uuid.UUID, commit func())

	// WriteLater commits an event that is not due before then.
	WriteLater func(t *testing.T, notBefore time.Time) uuid.UUID

	// State looks an event up; its State is "GONE" when there is no such event.
	State func(t *testing.T, id uuid.UUID) outbox.EventState

	// Expire makes all leases end now, and what waits for a lease's end due.
	Expire func(t *testing.T)

	// Bury makes an event dead, past the store.
	Bury func(t *testing.T, id uuid.UUID)

	// BreakFailures makes every attempt to record a failure an error, until the
	// test ends.
	BreakFailures func(t *testing.T)
}

// lease is long enough for no test to see its end.
const lease = time.Minute

type test struct {
	name string
	run  func(t *testing.T, h Harness)
}

// Run runs the suite; each test gets a harness of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	tests := []test{
		{"ClaimsInOrder", claimsInOrder},
		{"ClaimsNoMoreThanAsked", claimsNoMoreThanAsked},
		{"ClaimsByBytes", claimsByBytes},
		{"LeasedIsNotClaimed", leasedIsNotClaimed},
		{"ExpiredIsClaimedAgain", expiredIsClaimedAgain},
		{"TellsOfALeaseThatRanOut", tellsOfExpiredLease},
		{"ConcurrentClaimsShareNothing", concurrentClaimsShareNothing},
		{"UncommittedIsNotSeenAndNotSkipped", uncommittedIsNotSeenAndNotSkipped},
		{"LeaseCanBeLookedUp", leaseCanBeLookedUp},
		{"Publishes", publishes},
		{"SettlesTwice", settlesTwice},
		{"Retries", retries},
		{"Buries", buries},
		{"Releases", releases},
		{"LeavesUnknownToTheLeasesEnd", leavesUnknownToTheLeasesEnd},
		{"SettlesMixed", settlesMixed},
		{"StaleLeaseChangesNothing", staleLeaseChangesNothing},
		{"EndedStaysEnded", endedStaysEnded},
		{"PublishedDoesNotDependOnFailures", publishedDoesNotDependOnFailures},
		{"PartlyLostLease", partlyLostLease},
		{"Renews", renews},
		{"CountsBacklog", countsBacklog},
		{"CutsReasons", cutsReasons},
		{"LeavesWhatWasChangedByHand", changedByHand},
		{"DelaysEvents", delaysEvents},
		{"ReleaseLeavesWhatIsUnsettled", releaseLeavesUnsettled},
		{"ChecksTheDatabase", checksTheDatabase},
	}
	ordered := []test{
		{"KeepsTheOrderOfAnAggregate", keepsOrder},
		{"AnAggregateIsInOneBatch", oneBatchAnAggregate},
		{"AWaitingHeadHoldsBackItsAggregateOnly", waitingHead},
		{"AReleasedHeadWaits", releasedHead},
		{"ADeadHeadIsOutOfTheWay", deadHead},
		{"AnUnknownHeadHoldsBack", unknownHead},
		{"HandsOverInOrder", handsOver},
		{"SharesTheLanes", shares},
		{"GivesUpALeaseThatItDoesNotKnow", strayLease},
		{"AManyTimesBlockedAggregateIsPassedOver", manyBlocked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, newHarness(t)) })
	}
	if !newHarness(t).Ordered {
		return
	}
	for _, test := range ordered {
		t.Run(test.name, func(t *testing.T) { test.run(t, newHarness(t)) })
	}
}

// NewOwner returns the owner of a new run.
func NewOwner() outbox.Owner {
	return outbox.Owner{ID: outbox.NewEventID(), Host: "test-host", PID: 4711}
}

func claim(t *testing.T, h Harness, o outbox.Owner, limit int) *outbox.Batch {
	t.Helper()
	b, err := h.Store.Claim(t.Context(), outbox.ClaimRequest{Owner: o, Limit: limit, Lease: lease})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return b
}

func settle(t *testing.T, h Harness, b *outbox.Batch, outcomes []outbox.EventOutcome) outbox.Settlement {
	t.Helper()
	s, err := h.Store.Settle(t.Context(), b, outcomes)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return s
}

// all gives every event of the batch the same outcome.
func all(b *outbox.Batch, kind outbox.OutcomeKind) []outbox.EventOutcome {
	outcomes := make([]outbox.EventOutcome, len(b.Events))
	for i, e := range b.Events {
		outcomes[i] = outbox.EventOutcome{Key: e.Key, Kind: kind, Failure: outbox.FailureFailed, Reason: "no reason"}
		if kind == outbox.OutcomeRetry {
			outcomes[i].Backoff = time.Hour
		}
	}
	return outcomes
}

func keys(b *outbox.Batch) []string {
	out := make([]string, len(b.Events))
	for i, e := range b.Events {
		out[i] = e.Key
	}
	return out
}

func texts(ids []uuid.UUID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

// publishedState is the state of an event after its mark.
func (h Harness) publishedState() string {
	if h.Deletes {
		return "GONE"
	}
	return "PUBLISHED"
}

// wantWaiting requires that an event is neither published nor dead.
func wantWaiting(t *testing.T, h Harness, id uuid.UUID) outbox.EventState {
	t.Helper()
	s := h.State(t, id)
	if s.State != "PENDING" && s.State != "PUBLISHING" {
		t.Errorf("event %s is %s, want it to wait", id, s.State)
	}
	return s
}

// drain claims and publishes until nothing is due, and returns the keys in the
// order in which they were claimed.
func drain(t *testing.T, h Harness, o outbox.Owner, limit int) []string {
	t.Helper()
	var out []string
	for range 10_000 {
		b := claim(t, h, o, limit)
		if len(b.Events) == 0 {
			return out
		}
		if len(b.Events) > limit {
			t.Errorf("%d events were claimed, want at most %d", len(b.Events), limit)
		}
		out = append(out, keys(b)...)
		if s := settle(t, h, b, all(b, outbox.OutcomePublished)); s.Published != len(b.Events) {
			t.Errorf("%d events settled as %+v", len(b.Events), s)
		}
	}
	t.Error("the outbox never becomes empty")
	return out
}

// without fails when any of the ids is in the batch.
func without(t *testing.T, b *outbox.Batch, why string, ids ...uuid.UUID) {
	t.Helper()
	for _, key := range keys(b) {
		if slices.Contains(texts(ids), key) {
			t.Errorf("%s was claimed: %s", key, why)
		}
	}
}

// outcomes gives each of the ids its outcome, and the others another.
func outcomes(b *outbox.Batch, others outbox.OutcomeKind, some map[uuid.UUID]outbox.EventOutcome) []outbox.EventOutcome {
	out := all(b, others)
	for i := range out {
		for id, o := range some {
			if out[i].Key == id.String() {
				o.Key = out[i].Key
				out[i] = o
			}
		}
	}
	return out
}

func wantState(t *testing.T, h Harness, id uuid.UUID, state string) outbox.EventState {
	t.Helper()
	s := h.State(t, id)
	if s.State != state {
		t.Errorf("event %s is %s, want %s", id, s.State, state)
	}
	return s
}

func wantKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, short(got), short(want))
	}
}

func short(keys []string) string {
	if len(keys) <= 5 {
		return fmt.Sprint(keys)
	}
	return fmt.Sprintf("%d keys %v…", len(keys), keys[:5])
}
