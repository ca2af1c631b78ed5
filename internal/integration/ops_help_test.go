package integration

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// config is the events.yaml of a kind.
func (k kind) config() string {
	return map[string]string{
		lanesKind.name: "../../events.yaml", rowsKind.name: "../variants/rows/events.yaml",
		lanesDeleteKind.name: "../variants/lanesdelete/events.yaml", rowsDeleteKind.name: "../variants/rowsdelete/events.yaml",
	}[k.name]
}

// operations are what people use on a service, as the command line opens it.
func operations(t testing.TB, k kind, server dbtest.Database) *ops.Service {
	t.Helper()
	m, problems := spec.Load(k.config())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var pool *sql.DB
	pool, err := dsn.Open(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	s, err := ops.New(m, ops.Databases{Outbox: pool})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bury writes n events and makes them dead.
func (k kind) bury(t testing.TB, db *outbox.DB, order int64, n int) []uuid.UUID {
	t.Helper()
	ids := k.writeEvents(t, db, order, n)
	k.buryDue(t, db)
	return ids
}

// buryDue makes what is due dead.
func (k kind) buryDue(t testing.TB, db *outbox.DB) {
	t.Helper()
	store, owner := k.newStore(db), outbox.Owner{ID: outbox.NewEventID(), Host: "test"}
	for {
		b := claimN(t, store, owner, 500)
		if len(b.Events) == 0 {
			break
		}
		outcomes := allOutcomes(b, outbox.OutcomeDead)
		for i := range outcomes {
			outcomes[i].Failure, outcomes[i].Reason = outbox.FailureRejected, "the broker refused it"
		}
		if _, err := store.Settle(t.Context(), b, outcomes); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
}

func doneOf(results []ops.Result) (done int) {
	for _, r := range results {
		if r.Done {
			done++
		}
	}
	return done
}
