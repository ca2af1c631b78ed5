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

	// Write commits n events, each of an aggregate of its own, and returns their
	// ids in the order in which they are due.
	Write func(t *testing.T, n int) []uuid.UUID

	// WriteOpen writes an event in a transaction that stays open until commit is called.
	WriteOpen func(t *testing.T) (id uuid.UUID, commit func())

	// State looks an event up.
	State func(t *testing.T, id uuid.UUID) outbox.EventState

	// Expire makes the leases of all events end now.
	Expire func(t *testing.T)

	// BreakFailures makes every attempt to record a failure an error, until the
	// test ends.
	BreakFailures func(t *testing.T)
}

// lease is long enough for no test to see its end.
const lease = time.Minute

// Run runs the suite; each test gets a harness of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	tests := []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"ClaimsInOrder", claimsInOrder},
		{"ClaimsNoMoreThanAsked", claimsNoMoreThanAsked},
		{"ClaimsByBytes", claimsByBytes},
		{"LeasedIsNotClaimed", leasedIsNotClaimed},
		{"ExpiredIsClaimedAgain", expiredIsClaimedAgain},
		{"ConcurrentClaimsShareNothing", concurrentClaimsShareNothing},
		{"UncommittedIsNotSeenAndNotSkipped", uncommittedIsNotSeenAndNotSkipped},
		{"LeaseCanBeLookedUp", leaseCanBeLookedUp},
		{"Publishes", publishes},
		{"SettlesTwice", settlesTwice},
		{"Retries", retries},
		{"Buries", buries},
		{"Releases", releases},
		{"LeavesUnknownLeased", leavesUnknownLeased},
		{"SettlesMixed", settlesMixed},
		{"StaleLeaseChangesNothing", staleLeaseChangesNothing},
		{"EndedStaysEnded", endedStaysEnded},
		{"PublishedDoesNotDependOnFailures", publishedDoesNotDependOnFailures},
		{"PartlyLostLease", partlyLostLease},
		{"Renews", renews},
		{"CountsBacklog", countsBacklog},
		{"CutsReasons", cutsReasons},
	}
	for _, test := range tests {
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
