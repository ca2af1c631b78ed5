package integration

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// keptKinds are the kinds that keep what is published: one of each ordering.
var keptKinds = []kind{lanesKind, rowsKind}

// eachKind runs fn for each kind on both databases, with the kind's tables.
func eachKind(t *testing.T, kinds []kind, fn func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			eachDB(t, k, func(t *testing.T, server dbtest.Database, db *outbox.DB) { fn(t, k, server, db) })
		})
	}
}

// eachDB runs fn on both databases, with the kind's tables.
func eachDB(t *testing.T, k kind, fn func(t *testing.T, server dbtest.Database, db *outbox.DB)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		server.Exec(t, k.schema()...)
		fn(t, server, open(t, server.DSN))
	})
}

// writeEvents writes n events, each of an aggregate of its own, the first of them
// that order, and returns their ids.
func (k kind) writeEvents(t testing.TB, db *outbox.DB, order int64, n int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		for i := range ids {
			ids[i] = outbox.NewEventID()
			if err := k.write(t.Context(), tx, ids[i], order+int64(i), 1); err != nil {
				return err
			}
		}
		return nil
	})
	if outcome != outbox.Committed {
		t.Fatal(outcome, err)
	}
	return ids
}

func (k kind) state(t testing.TB, db *outbox.DB, id uuid.UUID) outbox.EventState {
	t.Helper()
	s, err := k.lookup(t.Context(), db, id)
	if err != nil {
		t.Fatalf("look up %s: %v", id, err)
	}
	return s
}

// expire makes all leases end now, and what waits for a lease's end due.
func (k kind) expire(t testing.TB, db *outbox.DB) {
	t.Helper()
	if k.ordered {
		mustExec(t, db, "UPDATE outbox_lane SET lease_until = UTC_TIMESTAMP(6) WHERE lease_owner <> ''")
		mustExec(t, db, "UPDATE outbox_event SET next_attempt_at = '1970-01-01' WHERE status = 0")
		return
	}
	mustExec(t, db, `UPDATE outbox_event SET lease_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND,
		available_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE status = 0 AND lease_owner <> ''`)
}

// claimN claims for a minute.
func claimN(t testing.TB, store outbox.Store, owner outbox.Owner, limit int) *outbox.Batch {
	t.Helper()
	b, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: limit, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allOutcomes(b *outbox.Batch, kind outbox.OutcomeKind) []outbox.EventOutcome {
	outcomes := make([]outbox.EventOutcome, len(b.Events))
	for i, e := range b.Events {
		outcomes[i] = outbox.EventOutcome{Key: e.Key, Kind: kind}
	}
	return outcomes
}

func settleAll(t testing.TB, store outbox.Store, b *outbox.Batch, kind outbox.OutcomeKind) {
	t.Helper()
	if _, err := store.Settle(t.Context(), b, allOutcomes(b, kind)); err != nil {
		t.Fatal(err)
	}
}

// publishAll claims and marks until nothing is due, and returns how many events it marked.
func publishAll(t testing.TB, store outbox.Store, owner outbox.Owner) int {
	t.Helper()
	for n := 0; ; {
		b := claimN(t, store, owner, 500)
		if len(b.Events) == 0 {
			return n
		}
		settleAll(t, store, b, outbox.OutcomePublished)
		n += len(b.Events)
	}
}
