package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// While writers, a relay, consumers and a purger are at work, nothing is found: whatever is
// between two looks is looked at once more. The window ends now, so that it has what is
// written while it is compared, and begins where the purger deletes.
func TestReconcileFindsNothingWhileEverythingRuns(t *testing.T) {
	const most = 1500 // orders, in all
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		// Events across the age at which they are purged, which end well before now.
		f := filled{begin: time.Now().Add(-168*time.Hour - 20*time.Minute), step: time.Second, rows: 2400}
		fillOrders(t, server, f)
		db := open(t, server.DSN)
		stop := runService(t, db)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		purger, err := orderevents.NewPurger(db, quiet(purge.Config{Interval: 50 * time.Millisecond, BatchSize: 20, Pause: 20 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = purger.Run(ctx) })
		for w := range 3 {
			running.Go(func() {
				for i := 0; i < most/3 && ctx.Err() == nil; i++ {
					_, err := outbox.InTx(context.WithoutCancel(ctx), db, func(tx *outbox.Tx) error {
						return placeOrder(context.WithoutCancel(ctx), tx, int64(w+2), fmt.Sprint(i), outbox.NewEventID())
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		s := operations(t, lanesKind, server)
		// The delays are as long as a slow machine may take; what has none is compared up to now.
		o := ops.ReconcileOptions{PublishDelay: 5 * time.Minute, ApplyDelay: 5 * time.Minute, Batch: 50}
		seen := map[int64]bool{}
		for n := 0; n < 12 || len(seen) < 3 && n < 100; n++ {
			o.From, o.To = time.Now().Add(-169*time.Hour), time.Now()
			report, err := s.Reconcile(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Differences() > 0 || len(report.Clipped) == 0 {
				t.Fatalf("%v, the first %+v; clipped %v", report.Counts, report.Findings[:min(1, len(report.Findings))], report.Clipped)
			}
			seen[report.BusinessRows] = true
		}
		if len(seen) < 3 {
			t.Errorf("no writer wrote between the comparisons: %v", seen)
		}
		if n := count(t, db, "outbox_event WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL 168 HOUR"); n >= 1200 {
			t.Errorf("%d events: the purger has deleted none", n)
		}
	})
}
