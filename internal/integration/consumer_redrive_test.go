package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// parkOne parks an event of a consumer whose handler then does what do does.
func parkOne(t *testing.T, db *outbox.DB, do effect) (*outbox.Consumer, outbox.Envelope) {
	t.Helper()
	parking := true
	consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
		if parking {
			return outbox.Permanent(errors.New("not now"))
		}
		return do(ctx, tx, id)
	})
	e := envelope(t)
	ends(t, consumer, e, outbox.Parked)
	parking = false
	return consumer, e
}

// Ten redrives at once: one effect, and the others find nothing to redrive.
func TestTenRedrivesOneEffect(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		entered, finish := make(chan struct{}, 10), make(chan struct{})
		consumer, e := parkOne(t, db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			entered <- struct{}{}
			<-finish
			return tally(ctx, tx, id)
		})
		results := make(chan string, 10)
		redrive := func() {
			handling, err := consumer.Redrive(context.WithoutCancel(t.Context()), e.ID)
			switch {
			case errors.Is(err, outbox.ErrNotParked):
				results <- "not parked"
			case err != nil:
				results <- err.Error()
			default:
				results <- handling.String()
			}
		}
		for range 10 {
			go redrive()
		}
		<-entered
		waitForLockWait(t, db)
		close(finish)
		got := map[string]int{}
		for range 10 {
			got[<-results]++
		}
		if want := map[string]int{"applied": 1, "not parked": 9}; cmp.Diff(want, got) != "" {
			t.Errorf("got %v, want %v", got, want)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
		ends(t, consumer, e, outbox.Duplicate)
	})
}

// A redrive whose handler fails changes the reason, and nothing else.
func TestFailedRedriveStaysParked(t *testing.T) {
	eachSettings(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		fail := true
		consumer, e := parkOne(t, db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			if err := tally(ctx, tx, id); err != nil || !fail {
				return err
			}
			return errors.New("still not")
		})
		for n := 1; n <= 2; n++ {
			handling, err := consumer.Redrive(t.Context(), e.ID)
			var h *outbox.HandlingError
			if handling != outbox.NotHandled || !errors.As(err, &h) || h.Attempts != n {
				t.Errorf("%v, %v", handling, err)
			}
			checkLeft(t, db, e, left{attempts: -1, parked: 1, outcome: int(outbox.Parked)})
			p := parkedOf(t, consumer, e.ID)
			if p.Reason != "still not" || p.Attempts != n || p.Kind != "permanent" {
				t.Errorf("%+v", p)
			}
			ends(t, consumer, e, outbox.Duplicate) // a delivery meanwhile
		}
		fail = false
		if handling, err := consumer.Redrive(t.Context(), e.ID); handling != outbox.Applied || err != nil {
			t.Errorf("%v, %v", handling, err)
		}
		checkLeft(t, db, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
	})
}

func parkedOf(t *testing.T, consumer *outbox.Consumer, id uuid.UUID) outbox.ParkedEvent {
	t.Helper()
	parked, err := consumer.ParkedEvents(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parked {
		if p.EventID == id {
			return p
		}
	}
	t.Fatalf("%s is not among the %d parked events", id, len(parked))
	return outbox.ParkedEvent{}
}

// Wherever its connection breaks, a redrive has happened or the event is parked.
func TestRedriveWithACutConnection(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, direct *outbox.DB) {
		proxy := mysqlproxy.Start(t, server.Addr)
		db := open(t, via(t, server, proxy.Addr(), nil))
		for _, statement := range []string{"LockParked", "DeleteParked", "ForgetConsumed", "InsertConsumed", "COMMIT"} {
			for name, action := range cutActions {
				consumer, e := parkOne(t, db, tally)
				match := mysqlproxy.Has("name: " + statement + " ")
				if statement == "COMMIT" {
					match = mysqlproxy.Is("COMMIT")
				}
				fault := proxy.At(action, match)
				_, err := consumer.Redrive(t.Context(), e.ID)
				<-fault.Hit
				var h *outbox.HandlingError
				if !errors.As(err, &h) || h.Kind != outbox.FailureUnavailable || errors.As(err, new(*outbox.CommitUnknownError)) != (statement == "COMMIT") {
					t.Errorf("%s of %s: %v", name, statement, err)
				}
				handling, err := consumer.Redrive(t.Context(), e.ID)
				if done := statement == "COMMIT" && action == mysqlproxy.CutReply; done && !errors.Is(err, outbox.ErrNotParked) || !done && handling != outbox.Applied {
					t.Errorf("%s of %s, again: %v, %v", name, statement, handling, err)
				}
				checkLeft(t, direct, e, left{attempts: -1, outcome: int(outbox.Applied), effects: 1})
			}
		}
	})
}
