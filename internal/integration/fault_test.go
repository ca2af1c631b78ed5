package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// cut is where a relay's connection breaks, several times: at a statement, or at
// the COMMIT of its transaction.
type cut struct {
	statement string
	commit    bool
	call      string // of the store, that then fails
}

func (c cut) String() string {
	if c.commit {
		return "COMMIT of " + c.statement
	}
	return c.statement
}

var (
	laneCuts = []cut{
		{statement: "SelectDueLanes", call: "claim"},
		{statement: "LockFreeLanes", call: "claim"},
		{statement: "LeaseLanes", call: "claim"},
		{statement: "LeaseLanes", commit: true, call: "claim"},
		{statement: "LockLanes", call: "settle"},
		{statement: "MarkPublished", call: "settle"},
		{statement: "MarkPublished", commit: true, call: "settle"},
		{statement: "RenewLanes", call: "renew"},
	}
	rowCuts = []cut{
		{statement: "SelectDueEvents", call: "claim"},
		{statement: "LeaseEvents", call: "claim"},
		{statement: "LeaseEvents", commit: true, call: "claim"},
		{statement: "MarkPublished", call: "settle"},
		{statement: "MarkPublished", commit: true, call: "settle"},
		{statement: "RenewLeases", call: "renew"},
	}
	cutActions = map[string]mysqlproxy.Action{"request": mysqlproxy.CutRequest, "reply": mysqlproxy.CutReply}
)

// Wherever its connection breaks, a relay goes on by itself and publishes every
// event once, in order: a settlement whose outcome it doesn't know it repeats.
func TestRelayOutlivesCutConnections(t *testing.T) {
	for _, c := range laneCuts {
		for name, action := range cutActions {
			t.Run(fmt.Sprintf("lanes, %v, %s", c, name), func(t *testing.T) {
				t.Parallel()
				eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
					relayWithCuts(t, lanesKind, server, db, c, action)
				})
			})
		}
	}
	for _, c := range rowCuts {
		for name, action := range cutActions {
			t.Run(fmt.Sprintf("rows, %v, %s", c, name), func(t *testing.T) {
				t.Parallel()
				eachDB(t, rowsKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
					relayWithCuts(t, rowsKind, server, db, c, action)
				})
			})
		}
	}
}

func relayWithCuts(t *testing.T, k kind, server dbtest.Database, db *outbox.DB, c cut, action mysqlproxy.Action) {
	times := 3
	cfg := outbox.RelayConfig{}
	if c.call == "renew" {
		cfg = outbox.RelayConfig{Lease: 2 * time.Second, PublishTimeout: 1500 * time.Millisecond, LeaseMargin: 200 * time.Millisecond}
	}
	if !k.ordered && c.statement == "LeaseEvents" && c.commit && action == mysqlproxy.CutReply {
		// The events are leased and their owner doesn't know: they wait for the lease's end.
		times = 1
		cfg = outbox.RelayConfig{Lease: time.Second, PublishTimeout: 500 * time.Millisecond}
	}
	ids := k.writeSeries(t, db, 12, 5)
	proxy := mysqlproxy.Start(t, server.Addr)
	store := k.newStore(open(t, via(t, server, proxy.Addr(), nil)))
	faults := make([]*mysqlproxy.Fault, times)
	for i := range faults {
		if c.commit {
			faults[i] = proxy.AtCommit(action, mysqlproxy.Has("name: "+c.statement+" "))
		} else {
			faults[i] = proxy.At(action, mysqlproxy.Has("name: "+c.statement+" "))
		}
	}
	broker := &ledger{}
	if c.call == "renew" { // needs a publish that takes until the renewals were cut
		broker.before = func(ctx context.Context, _ []outbox.Envelope) {
			select {
			case <-faults[times-1].Hit:
			case <-ctx.Done():
			}
		}
	}
	relay := startRelay(t, store, broker, cfg)
	relay.awaitFailures(t, times)
	awaitPublished(t, db)
	if n := relay.failures(); n[c.call] != times || len(n) != 1 {
		t.Errorf("the store's calls that failed: %v, want %d of %s", n, times, c.call)
	}
	relay.checkCalm(t, db, len(ids), warningOf[c.call])
	if repeats := broker.check(t, k, ids); repeats > 0 {
		t.Errorf("%d events were published again: no mark was lost", repeats)
	}
}

// When a mark can't be made before the lease is over, just the events of that batch
// are published again, in order.
func TestOnlyALostMarkRepeats(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := k.writeSeries(t, db, 12, 5)
		proxy := mysqlproxy.Start(t, server.Addr)
		store := k.newStore(open(t, via(t, server, proxy.Addr(), nil)))
		var mended atomic.Bool
		for range 200 { // more than there are tries
			proxy.At(mysqlproxy.CutRequest, func(s string) bool {
				return !mended.Load() && (strings.Contains(s, "name: MarkPublished ") || strings.Contains(s, "name: RenewL"))
			})
		}
		var lost atomic.Int64
		broker := &ledger{}
		relay := startRelay(t, store, broker, outbox.RelayConfig{
			MaxBatches: 1, Lease: time.Second, PublishTimeout: 500 * time.Millisecond,
			Observer: &outbox.Observer{Abandoned: func(events int) {
				lost.Add(int64(events))
				mended.Store(true)
			}},
		})
		awaitPublished(t, db)
		relay.end()
		want := map[string]int{warningOf["settle"]: 1, warningOf["renew"]: 1, "settle given up; the events are due again when their lease ends": 1}
		if got := relay.log.warnings(); !maps.Equal(got, want) {
			t.Errorf("the relay warned of %v", got)
		}
		repeats := broker.check(t, k, ids)
		if repeats == 0 || int64(repeats) != lost.Load() {
			t.Errorf("%d events were published again, the marks of %d were lost", repeats, lost.Load())
		}
		if n := count(t, db, "outbox_event WHERE attempts > 0"); n > 0 {
			t.Errorf("of %d events an attempt was counted", n)
		}
	})
}
