package integration

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// A relay that is stopped past its lease, between the confirm and the mark, must
// change nothing when it comes back.
func TestRelayThatLostItsLeaseMarksNothing(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		prepareBroker(t, db)
		ids := k.writeEvents(t, db, 1, 10)
		c := startChild(t, k, server.DSN, "after confirm", "stop")
		if line, err := c.out.ReadString('\n'); err != nil || line != "at step\n" {
			t.Fatalf("%q, %v", line, err)
		}
		c.signal(t, syscall.SIGSTOP)
		drain(t, k, db) // waits for the lease to end, by the database's clock
		before := make([]outbox.EventState, len(ids))
		for i, id := range ids {
			before[i] = k.state(t, db, id)
			if before[i].LeasePID == int64(c.cmd.Process.Pid) {
				t.Errorf("event %s was marked by the stopped relay", id)
			}
		}
		c.signal(t, syscall.SIGCONT)
		if _, err := c.in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		c.signal(t, syscall.SIGTERM)
		rest, _ := io.ReadAll(c.out)
		if err := c.cmd.Wait(); err != nil {
			t.Fatalf("the relay did not stop cleanly: %v", err)
		}
		if got := strings.TrimSpace(string(rest)); got != "published 0 lost 10" {
			t.Errorf("the late relay reports %q, want 10 lost leases", got)
		}
		for i, id := range ids {
			if after := k.state(t, db, id); after != before[i] {
				t.Errorf("event %s was changed by the late mark:\n%+v\n%+v", id, before[i], after)
			}
		}
	})
}

// No transaction is open while a relay publishes.
func TestNoTransactionDuringPublish(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		k.writeEvents(t, db, 1, 10)
		checked := make(chan struct{})
		publisher := publisherFunc(func(m []outbox.Envelope) []error {
			var open int
			time.Sleep(150 * time.Millisecond) // see waitForLockWait
			err := db.QueryRowContext(context.WithoutCancel(t.Context()), `SELECT COUNT(*) FROM information_schema.innodb_trx t
				JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()`).Scan(&open)
			if err != nil && !errors.Is(err, sql.ErrNoRows) || open != 0 {
				t.Errorf("%d transactions are open during the publish (%v)", open, err)
			}
			close(checked)
			return make([]error, len(m))
		})
		cfg := childRelayConfig()
		cfg.MaxBatches = 1 // or the claim of the next one would be seen
		relay, err := outbox.NewRelay(k.newStore(open(t, server.DSN)), publisher, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		<-checked
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type publisherFunc func(m []outbox.Envelope) []error

func (f publisherFunc) Publish(_ context.Context, m []outbox.Envelope) []error { return f(m) }
