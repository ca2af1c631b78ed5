package integration

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// upgrade is a kind, and the events.yaml that it was generated from.
type upgrade struct {
	kind
	config string
}

var upgrades = []upgrade{{lanesKind, "../../events.yaml"}, {rowsKind, "../variants/rows/events.yaml"}}

func (u upgrade) layouts(t testing.TB) sqlgen.Layouts {
	t.Helper()
	text, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := spec.Parse(u.config, text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	layouts, problems := sqlgen.Tables(m)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return layouts
}

func (u upgrade) diff(t testing.TB, pool *sql.DB, options schemadiff.Options) schemadiff.Plan {
	t.Helper()
	layouts := u.layouts(t)
	live, err := schemadiff.Read(t.Context(), pool, schemadiff.Names(layouts))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := schemadiff.Diff(layouts, live, options)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// apply runs the statements that lead to the tables of u, each then followed by
// between, and requires that no difference is left.
func (u upgrade) apply(t testing.TB, server dbtest.Database, options schemadiff.Options, between func()) {
	t.Helper()
	pool := server.Open(t)
	plan := u.diff(t, pool, options)
	for _, statement := range ddl.Split(plan.SQL()) {
		if _, err := pool.ExecContext(t.Context(), statement.SQL); err != nil {
			t.Fatalf("%v\n%s", err, statement.SQL)
		}
		between()
	}
	left := u.diff(t, pool, schemadiff.Options{})
	for _, f := range left.Findings {
		if options.Drop || f.Rule != "extra-column" && f.Rule != "extra-table" {
			t.Errorf("left: %s", f.Message)
		}
	}
	if left.Runs() {
		t.Errorf("left:\n%s", left.SQL())
	}
}

// The tables of every earlier release become today's, of either ordering. What waits
// in them is published by today's relay, and what was consumed stays known.
func TestUpgradeOfReleases(t *testing.T) {
	releases, err := filepath.Glob("../schemadiff/testdata/releases/*.sql")
	if err != nil || len(releases) < 4 {
		t.Fatalf("%v: %v", releases, err)
	}
	for _, release := range releases {
		text, err := os.ReadFile(release)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range upgrades {
			for _, options := range []schemadiff.Options{{}, {Drop: true}} {
				t.Run(fmt.Sprintf("%s/%s/drop=%t", filepath.Base(release), to.name, options.Drop), func(t *testing.T) {
					dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
						t.Parallel()
						for _, statement := range ddl.Split(string(text)) {
							server.Exec(t, statement.SQL)
						}
						server.Exec(t, "INSERT INTO consumed_event (consumer_name, event_id, consumed_at) VALUES ('c', 'e', '2026-01-02 03:04:05')")
						db := open(t, server.DSN)
						n := len(to.writeEvents(t, db, 1, 20))
						to.apply(t, server, options, func() { n += len(to.writeEvents(t, db, 100, 1)) })

						if got := publishAll(t, to.newStore(db), storesuite.NewOwner()); got != n {
							t.Errorf("%d of %d waiting events were published", got, n)
						}
						if got := count(t, db, "consumed_event WHERE consumer_name = 'c' AND event_id = 'e' AND outcome = 1"); got != 1 {
							t.Errorf("%d dedup rows, want 1", got)
						}
					})
				})
			}
		}
	}
}

// waiting are events in every state in which a stopped relay may leave them.
type waiting struct {
	retried, leased, untouched, dead, published uuid.UUID
}

// leave makes them: versions 1 to 3 of one aggregate, the first of which failed, and
// others that wait for nothing more.
func (u upgrade) leave(t testing.TB, db *outbox.DB) waiting {
	t.Helper()
	store, owner := u.newStore(db), storesuite.NewOwner()
	write := func(order, version int64) uuid.UUID {
		id := outbox.NewEventID()
		if outcome, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return u.write(t.Context(), tx, id, order, version) }); outcome != outbox.Committed {
			t.Fatal(outcome, err)
		}
		return id
	}
	settle := func(o outbox.EventOutcome) {
		b := claimN(t, store, owner, 1)
		if len(b.Events) != 1 {
			t.Fatalf("%d events", len(b.Events))
		}
		o.Key = b.Events[0].Key
		if _, err := store.Settle(t.Context(), b, []outbox.EventOutcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	var w waiting
	w.dead = write(1, 1)
	settle(outbox.EventOutcome{Kind: outbox.OutcomeDead, Failure: outbox.FailureRejected, Reason: "no"})
	w.published = write(1, 2)
	settle(outbox.EventOutcome{Kind: outbox.OutcomePublished})
	w.retried = write(7, 1)
	settle(outbox.EventOutcome{Kind: outbox.OutcomeRetry, Backoff: time.Hour, Failure: outbox.FailureRejected, Reason: "later"})
	w.leased = write(7, 2)
	claimN(t, store, owner, 1) // and the relay is gone
	w.untouched = write(7, 3)
	return w
}

// With another ordering the events that wait still wait, for as long as before, and
// in their order where the new one has any. Writers notice nothing.
func TestChangeOfOrdering(t *testing.T) {
	for i, from := range upgrades {
		to := upgrades[1-i]
		for _, options := range []schemadiff.Options{{}, {Drop: true}} {
			t.Run(fmt.Sprintf("to %s/drop=%t", to.name, options.Drop), func(t *testing.T) {
				eachDB(t, from.kind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
					w := from.leave(t, db)
					others := 0
					to.apply(t, server, options, func() { others += len(to.writeEvents(t, db, 100+int64(others), 1)) })
					for id, want := range map[uuid.UUID]string{w.retried: "PENDING", w.untouched: "PENDING", w.dead: "DEAD", w.published: "PUBLISHED"} {
						if got := to.state(t, db, id).State; got != want {
							t.Errorf("%s, not %s", got, want)
						}
					}
					if got := to.state(t, db, w.retried); time.Until(got.AvailableAt) < 50*time.Minute || got.Attempts != 1 || got.LastError != "later" {
						t.Errorf("after its failure it should wait for an hour: %+v", got)
					}

					// The wait and the lease end.
					mustExec(t, db, "UPDATE outbox_event SET "+map[bool]string{true: "next_attempt_at", false: "available_at"}[to.ordered]+
						" = '2000-01-01' WHERE status = 0 AND (event_id = ? OR event_id = ?)", w.retried, w.leased)
					store, owner := to.newStore(db), storesuite.NewOwner()
					var order []uuid.UUID
					for {
						b := claimN(t, store, owner, 500)
						if len(b.Events) == 0 {
							break
						}
						for _, e := range b.Events {
							order = append(order, uuid.MustParse(e.Key))
						}
						settleAll(t, store, b, outbox.OutcomePublished)
					}
					if len(order) != 3+others {
						t.Errorf("%d events, not %d", len(order), 3+others)
					}
					if to.ordered {
						order = slices.DeleteFunc(order, func(id uuid.UUID) bool { return id != w.retried && id != w.leased && id != w.untouched })
						if want := []uuid.UUID{w.retried, w.leased, w.untouched}; !slices.Equal(order, want) {
							t.Errorf("the aggregate's events come as %v, not %v", order, want)
						}
					}

					// And back again, over what may have been left.
					from.apply(t, server, schemadiff.Options{Drop: true}, func() {})
					if from.writeEvents(t, db, 900, 1); publishAll(t, from.newStore(db), storesuite.NewOwner()) != 1 {
						t.Error("the way back doesn't publish")
					}
				})
			})
		}
	}
}
