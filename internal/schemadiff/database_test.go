package schemadiff_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
)

// TestFreshTables: what every events.yaml of this repository asks for, made on a
// server and read back, is what it asked for.
func TestFreshTables(t *testing.T) {
	names, err := filepath.Glob("../variants/*/events.yaml")
	if err != nil || len(names) < 3 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, name := range append(names, "../../events.yaml") {
		want := parse(t, name, file(t, name))
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				t.Parallel()
				pool := db.Open(t)
				empty := diff(t, pool, want, schemadiff.Options{})
				if len(empty.Findings) != len(want.Want.Statements()) {
					t.Fatalf("in an empty database: %v", empty.Findings)
				}
				apply(t, db, empty)
				requireEmpty(t, diff(t, pool, want, schemadiff.Options{}))
			})
		})
	}
}

// TestPrefix: with table_prefix only the tables with the prefix are looked at.
func TestPrefix(t *testing.T) {
	for _, settings := range []string{"ordering: aggregate", "ordering: none"} {
		t.Run(settings, func(t *testing.T) {
			plain, want := layouts(t, settings), layouts(t, settings+", table_prefix: shop_")
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				t.Parallel()
				create(t, db, plain.Want)
				db.Exec(t, "ALTER TABLE outbox_event DROP COLUMN status") // somebody else's
				pool := db.Open(t)
				plan := diff(t, pool, want, schemadiff.Options{Drop: true})
				if n := len(want.Want.Statements()); len(plan.Findings) != n || len(plan.Steps) != n {
					t.Errorf("%d findings and %d steps, not %d:\n%s", len(plan.Findings), len(plan.Steps), n, plan.SQL())
				}
				apply(t, db, plan)
				requireEmpty(t, diff(t, pool, want, schemadiff.Options{}))
				db.Exec(t, "ALTER TABLE shop_outbox_event RENAME INDEX ix_shop_outbox_event_claim TO ix_outbox_event_claim")
				plan = diff(t, pool, want, schemadiff.Options{})
				if got := messages(plan); got != "shop_outbox_event: the index ix_shop_outbox_event_claim is named ix_outbox_event_claim [different-key]" {
					t.Error(got)
				}
				apply(t, db, plan)
				requireEmpty(t, diff(t, pool, want, schemadiff.Options{}))
			})
		})
	}
}

// TestHeldBack: without --drop nothing is dropped, and it is still a difference.
func TestHeldBack(t *testing.T) {
	want := layouts(t, "ordering: aggregate")
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		t.Parallel()
		create(t, db, want.Want)
		seed(t, db)
		db.Exec(t,
			"ALTER TABLE outbox_event ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT 'kept', ADD COLUMN must INT NOT NULL, ADD KEY mine (note), ADD UNIQUE only (note)",
			"CREATE TABLE outbox_mine (id INT)")
		pool := db.Open(t)
		plan := diff(t, pool, want, schemadiff.Options{})
		if plan.Runs() || len(plan.Findings) != 4 || len(ddl.Split(plan.SQL())) != 0 {
			t.Fatalf("%s\n%s", messages(plan), plan.SQL())
		}
		for _, part := range []string{"-- Not dropped without --drop:\n-- ALTER TABLE outbox_event\n", "--   DROP COLUMN `note`,\n", "--   DROP INDEX `mine`,\n"} {
			if !strings.Contains(plan.SQL(), part) {
				t.Errorf("no %q in\n%s", part, plan.SQL())
			}
		}
		if i := strings.Index(plan.SQL(), "outbox_mine"); i >= 0 {
			t.Error("a table that isn't ours is named")
		}
		for _, f := range plan.Findings {
			if strings.Contains(f.Message, "must") && !strings.Contains(f.Hint, "our rows are refused") {
				t.Errorf("%q", f.Hint)
			}
			if strings.Contains(f.Message, "constraint only") && !strings.Contains(f.Hint, "may refuse rows of ours") {
				t.Errorf("%q", f.Hint)
			}
		}
	})
}

// TestNoRightToSee: what can't be compared isn't taken for the same.
func TestNoRightToSee(t *testing.T) {
	want := layouts(t, "ordering: aggregate")
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		t.Parallel()
		create(t, db, want.Want)
		user := "h" + db.Name[len(db.Name)-12:]
		db.Exec(t, "CREATE USER "+user+" IDENTIFIED BY 'Some-pass-1'", "GRANT SELECT ON "+db.Name+".* TO "+user)
		t.Cleanup(func() { db.Exec(t, "DROP USER "+user) })
		cfg := db.Config()
		cfg.User, cfg.Passwd = user, "Some-pass-1"
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		defer pool.Close()
		pool.SetMaxIdleConns(0) // a session knows the rights that it began with
		var refused *schemadiff.RefusedError
		if _, err := schemadiff.Read(t.Context(), pool, schemadiff.Names(want)); !errors.As(err, &refused) || !strings.Contains(refused.Hint, "SHOW VIEW") {
			t.Fatalf("without SHOW VIEW: %v", err)
		}
		db.Exec(t, "GRANT SHOW VIEW ON "+db.Name+".* TO "+user)
		requireEmpty(t, diff(t, pool, want, schemadiff.Options{}))
	})
}
