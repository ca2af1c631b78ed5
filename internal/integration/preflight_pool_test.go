package integration

import (
	"context"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The check of the database must not need more connections than the pool has: it
// would wait for itself, and the relay would never begin.
func TestCheckOnOneConnection(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, _ *outbox.DB) {
		narrow := open(t, server.DSN)
		narrow.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := k.newStore(narrow).(outbox.Checker).Check(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A relay gets on with a single connection, if slowly.
func TestRelayOnOneConnection(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := k.writeSeries(t, db, 12, 5)
		narrow := open(t, server.DSN)
		narrow.SetMaxOpenConns(1)
		broker := &ledger{}
		relay := startRelay(t, k.newStore(narrow), broker, outbox.RelayConfig{MaxBatches: 4, BatchSize: 10})
		awaitPublished(t, db)
		relay.checkCalm(t, db, len(ids))
		if repeats := broker.check(t, k, ids); repeats > 0 {
			t.Errorf("%d events were published again", repeats)
		}
	})
}
