package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Writers whose pool has one connection, all in use by the transaction that writes,
// neither hang nor keep a relay waiting, nor the relay them.
func TestFullPoolOfWriters(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		const writers, rounds = 4, 5
		narrow := open(t, server.DSN)
		narrow.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		published := make(chan struct{}, 1)
		broker := &ledger{before: func(context.Context, []outbox.Envelope) {
			select {
			case published <- struct{}{}:
			default:
			}
		}}
		relay := startRelay(t, k.newStore(db), broker, outbox.RelayConfig{})

		var mu sync.Mutex
		var ids []uuid.UUID
		var wg sync.WaitGroup
		for w := range int64(writers) {
			wg.Go(func() {
				for round := range int64(rounds) {
					id := outbox.NewEventID()
					outcome, err := outbox.InTx(ctx, narrow, func(tx *outbox.Tx) error {
						mu.Lock()
						first := len(ids) == 0
						ids = append(ids, id)
						mu.Unlock()
						if err := k.write(ctx, tx, id, w+1, round+1); err != nil || first {
							return err
						}
						select { // the relay works while the only connection is taken
						case <-published:
							return nil
						case <-ctx.Done():
							return fmt.Errorf("the relay published nothing: %w", ctx.Err())
						}
					})
					if outcome != outbox.Committed {
						t.Error(outcome, err)
						return
					}
				}
			})
		}
		wg.Wait()
		awaitPublished(t, db)
		relay.checkCalm(t, db, writers*rounds)
		if repeats := broker.check(t, k, ids); repeats > 0 {
			t.Errorf("%d events were published again", repeats)
		}
	})
}
