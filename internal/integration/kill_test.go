package integration

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const killedEvents = 25 // in batches of ten

func TestKilledRelayLosesNothing(t *testing.T) {
	for _, step := range relaySteps {
		t.Run(step, func(t *testing.T) {
			eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
				prepareBroker(t, db)
				ids := k.writeEvents(t, db, 1, killedEvents)
				c := startChild(t, k, server.DSN, step, "kill")
				err := c.cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the relay was not killed at its step: %v", err)
				}
				checkLeases(t, k, db, ids, c.cmd.Process.Pid, step)
				repeats := drainAfterKill(t, k, db, ids)
				// After the first batch's mark the second may be confirmed already: the steps overlap.
				if repeats > 0 && step != "after confirm" && step != "before mark" && step != "after mark" {
					t.Errorf("%d repeats; none is due when a relay dies %s", repeats, step)
				}
				if repeats == 0 && (step == "after confirm" || step == "before mark") {
					t.Error("the fault did not happen: nothing was published twice")
				}
			})
		})
	}
}

// In the middle of a transaction, with its last statement on its way or not.
func TestRelayKilledInATransactionLosesNothing(t *testing.T) {
	for _, at := range stopPoints {
		for name, arrives := range map[string]bool{" that never comes": false, " that comes": true} {
			t.Run(at.name+name, func(t *testing.T) {
				eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
					prepareBroker(t, db)
					ids := k.writeEvents(t, db, 1, killedEvents)
					proxy := mysqlproxy.Start(t, server.Addr)
					fault := at.stall(proxy)
					c := startChild(t, k, via(t, server, proxy.Addr(), nil), "", "")
					<-fault.Hit
					c.signal(t, syscall.SIGKILL)
					_ = c.cmd.Wait()
					if arrives {
						close(fault.Forward)
					} else {
						close(fault.Drop)
					}
					repeats := drainAfterKill(t, k, db, ids)
					if repeats > 0 && !at.settles {
						t.Errorf("%d repeats; none is due when a relay dies in its first claim", repeats)
					}
					if repeats == 0 && at.settles && (!at.commit || !arrives) {
						t.Error("the fault did not happen: nothing was published twice")
					}
				})
			})
		}
	}
}

// drainAfterKill ends the dead relay's leases, publishes what is left and returns
// how often an event was published again.
func drainAfterKill(t *testing.T, k kind, db *outbox.DB, ids []uuid.UUID) (repeats int) {
	t.Helper()
	k.expire(t, db)
	drain(t, k, db)
	for _, id := range ids {
		n := count(t, db, "broker WHERE event_id = ?", id)
		if n == 0 {
			t.Errorf("event %s was lost", id)
		}
		repeats += max(0, n-1)
		// Who published an event is kept where it costs nothing: in a row that was leased.
		if s := k.state(t, db, id); s.State != "PUBLISHED" || (s.LeaseOwner == "") != k.ordered {
			t.Errorf("in the end: %+v", s)
		}
	}
	return repeats
}

// checkLeases looks each event up while nobody works on it.
func checkLeases(t *testing.T, k kind, db *outbox.DB, ids []uuid.UUID, pid int, step string) {
	t.Helper()
	states := map[string]int{}
	for _, id := range ids {
		s := k.state(t, db, id)
		states[s.State]++
		if s.State != "PUBLISHING" {
			continue
		}
		if uuid.Validate(s.LeaseOwner) != nil || s.LeasePID != int64(pid) || s.LeaseHost == "" || s.LeaseUntil.IsZero() {
			t.Errorf("%s: the lease of %s can't be read: %+v", step, id, s)
		}
	}
	leased := states["PUBLISHING"] > 0
	// After the first mark the other batches may have been marked, too.
	if want := step != "before claim"; leased != want && step != "after mark" {
		t.Errorf("%s: states %v", step, states)
	}
	if marked := states["PUBLISHED"] > 0; marked != (step == "after mark") {
		t.Errorf("%s: states %v", step, states)
	}
}
