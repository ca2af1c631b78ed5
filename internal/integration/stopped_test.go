package integration

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// point is where a relay stops in the middle of a transaction: before the
// statement with a text, or before the COMMIT that follows it.
type point struct {
	name    string
	settles bool // else it claims
	text    string
	commit  bool
}

const lease, mark = "SET lease_owner", "SET status = 2"

var (
	inClaim    = point{name: "before the lease", text: lease}
	stopPoints = []point{
		inClaim,
		{name: "before the claim's COMMIT", text: lease, commit: true},
		{name: "before the mark", settles: true, text: mark},
		{name: "before the mark's COMMIT", settles: true, text: mark, commit: true},
	}
)

func (at point) stall(proxy *mysqlproxy.Proxy) *mysqlproxy.Fault {
	if at.commit {
		return proxy.AtCommit(mysqlproxy.Stall, mysqlproxy.Has(at.text))
	}
	return proxy.At(mysqlproxy.Stall, mysqlproxy.Has(at.text))
}

// stopped is a relay that stops at a point, with its connection open.
type stopped struct {
	at    point
	proxy *mysqlproxy.Proxy
	store outbox.Store
	fault *mysqlproxy.Fault
	done  chan struct{}
}

// stopAt makes a relay that stops; the server ends its transaction after so many seconds.
func stopAt(t *testing.T, k kind, server dbtest.Database, seconds int, at point) *stopped {
	t.Helper()
	s := &stopped{at: at, proxy: mysqlproxy.Start(t, server.Addr), done: make(chan struct{})}
	s.store = k.newStore(open(t, via(t, server, s.proxy.Addr(), func(c *mysql.Config) {
		c.Params = map[string]string{"wait_timeout": strconv.Itoa(seconds)}
	})))
	return s
}

// run takes it to its point.
func (s *stopped) run(t *testing.T, batch int) {
	t.Helper()
	owner := storesuite.NewOwner()
	claim := func() *outbox.Batch {
		b, _ := s.store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: batch, Lease: 2 * time.Second})
		return b
	}
	var b *outbox.Batch
	if s.at.settles {
		b = claim()
	}
	s.fault = s.at.stall(s.proxy)
	go func() {
		defer close(s.done)
		if !s.at.settles {
			claim()
		} else if b != nil {
			_, _ = s.store.Settle(t.Context(), b, allOutcomes(b, outbox.OutcomePublished))
		}
	}()
	select {
	case <-s.fault.Hit:
	case <-s.done:
		t.Fatal("the relay did not stop: the fault did not happen")
	}
	t.Cleanup(func() { close(s.fault.Forward); <-s.done })
}

// A relay that stopped in the middle of a transaction, with its connection open,
// must stop nobody else, and what it has locked must not stay so for the eight
// hours that a server waits by default.
func TestStoppedRelayStopsNobody(t *testing.T) {
	const first, more, serverWaits = 10, 300, 6
	for _, at := range stopPoints {
		t.Run(at.name, func(t *testing.T) {
			eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
				ids := k.writeEvents(t, db, 1, first)
				stop := stopAt(t, k, server, serverWaits, at)
				stop.run(t, first)
				k.writeEvents(t, db, 1000, more)

				// Another relay, for which a wait would be an error, gets what isn't locked.
				other, owner := k.newStore(impatient(t, server)), storesuite.NewOwner()
				published := publishAll(t, other, owner)
				if published == 0 {
					t.Error("the other relay got nothing")
				}
				if !k.ordered && published != more {
					t.Errorf("the other relay got %d events, want the %d that nobody has locked", published, more)
				}
				for _, id := range ids {
					if s := k.state(t, db, id); s.State == "PUBLISHED" {
						t.Fatal("what the stopped relay had was published: the fault did not happen")
					}
				}
				for deadline := time.Now().Add(60 * time.Second); published < first+more; published += publishAll(t, other, owner) {
					if time.Now().After(deadline) {
						t.Fatalf("%d events were published, want %d: the locks of the stopped relay stay", published, first+more)
					}
					time.Sleep(100 * time.Millisecond) // what is waited for is the server's clock
				}
			})
		})
	}
}

// By default the server waits for a minute.
func TestServerEndsAStoppedRelayInAMinute(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		var seconds int
		if err := db.QueryRowContext(t.Context(), "SELECT @@session.wait_timeout").Scan(&seconds); err != nil || seconds != 60 {
			t.Errorf("wait_timeout is %d s (%v), want 60", seconds, err)
		}
	})
}

// A lane that somebody has locked must not make a relay wait that gives others
// of its lanes back, or renews them. It holds about half of the lanes: statements
// that name so many are those for which a server would rather scan all of them.
func TestLockedLaneStopsNoRelay(t *testing.T) {
	const lease, many = time.Second, 28
	eachDB(t, lanesKind, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		claimN(t, lanesKind.newStore(db), storesuite.NewOwner(), 1) // another relay, to share with; it makes the lanes
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		mustExec(t, tx, "SELECT lane FROM outbox_lane WHERE lane = 63 FOR UPDATE")

		proxy := mysqlproxy.Start(t, server.Addr)
		store := lanesKind.newStore(open(t, via(t, server, proxy.Addr(), func(c *mysql.Config) {
			c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		})))
		owner := storesuite.NewOwner()
		poll := func() {
			for {
				b, err := store.Claim(t.Context(), outbox.ClaimRequest{Owner: owner, Limit: 500, Lease: lease})
				if err != nil {
					t.Errorf("the claim waited for a lane that it has nothing to do with: %v", err)
				}
				if err != nil || len(b.Events) == 0 {
					return
				}
				settleAll(t, store, b, outbox.OutcomePublished)
			}
		}
		most := func(name string) (lanes int) { // that a statement named
			for _, s := range proxy.Statements() {
				if strings.Contains(s, name) {
					lanes = max(lanes, strings.Count(s, ",")+1)
				}
			}
			return lanes
		}
		// Its lanes are kept, and renewed past the half of the lease: on a busy machine
		// some rounds take longer than that, and lease anew.
		for round := int64(0); round < 40 && most("RenewLanes") < many; round++ {
			lanesKind.writeEvents(t, db, 1000*round, 400)
			poll()
			time.Sleep(lease * 6 / 10)
		}
		for range 20 { // until its lanes are idle, and given back
			if most("ReleaseLanes") >= many {
				break
			}
			time.Sleep(lease)
			poll()
		}
		for _, name := range []string{"RenewLanes", "ReleaseLanes"} {
			if n := most(name); n < many {
				t.Errorf("no %s named many lanes, but %d at most: the test looks at too little", name, n)
			}
		}
	})
}
