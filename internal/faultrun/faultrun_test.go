package main

import (
	"os"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestMain(m *testing.M) {
	childIfAsked()
	os.Exit(m.Run())
}

// each runs fn on both databases, one after the other: each run is a load of its own.
func each(t *testing.T, k kind, fn func(t *testing.T, db *outbox.DB, dsn string)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		server.Exec(t, k.schema()...)
		db, err := mysqldb.Open(server.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		fn(t, db, server.DSN)
	})
}

func TestOrderUnderFaults(t *testing.T) {
	each(t, lanesKind, func(t *testing.T, db *outbox.DB, dsn string) {
		report, err := runOrder(t.Context(), db, dsn, orderSettings{
			aggregates: 150, events: 20, writers: 8, rate: 300, relays: 4,
			lease: 2 * time.Second, drain: time.Minute, seed: 1,
		})
		t.Log(report)
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNobodyIsInTheWay(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			each(t, k, func(t *testing.T, _ *outbox.DB, dsn string) {
				report, err := runContention(t.Context(), k, dsn, contentionSettings{writers: 16, relays: 8, duration: 5 * time.Second})
				t.Log(report)
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRollingRestart(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			each(t, k, func(t *testing.T, db *outbox.DB, dsn string) {
				report, err := runRolling(t.Context(), k, db, dsn, rollingSettings{
					relays: 3, rounds: 2, rate: 200, lease: 30 * time.Second, pause: 500 * time.Millisecond, seed: 1,
				})
				t.Log(report)
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
