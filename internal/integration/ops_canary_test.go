package integration

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What is in a private field of an event shows in no command's output, whatever became of the event.
func TestNoCommandShowsPrivateFields(t *testing.T) {
	const canary = "canary-7f3a"
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		write := func(order int64) (id string, e outbox.Envelope) {
			t.Helper()
			note := canary
			p := acceptedPayload(order)
			p.Note = &note
			e = envelope(t)
			if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				if err := placeOrder(t.Context(), tx, 1, e.ID.String(), outbox.NewEventID()); err != nil {
					return err
				}
				return orderevents.WriteOrderAccepted(t.Context(), tx, e.ID, p)
			}); err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			e.Data = data
			return e.ID.String(), e
		}
		dead, _ := write(1)
		lanesKind.buryDue(t, db)
		mustExec(t, db, "UPDATE outbox_event SET status = 3")
		parked, e := write(2)
		consumer := report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("no")) })
		ends(t, consumer, e, outbox.Parked)
		broken, e := write(3) // a payload that can't be decoded is parked with what was wrong with it
		e.Data = json.RawMessage(`{"order_id": "` + canary + `", "note": "` + canary + `"}`)
		ends(t, consumer, e, outbox.Parked)
		if err := consumer.Park(t.Context(), outbox.Unreadable{Reference: "here", Headers: map[string]string{"x": canary}, Body: []byte(canary), Reason: outbox.ErrNotAnEvent}); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"status"}, {"show", dead}, {"show", parked}, {"show", broken}, {"find"}, {"find", "--aggregate", "order/2"}, {"consumed", salesReport, parked},
			{"dead", "list"}, {"dead", "show", dead}, {"dead", "redrive", "--all"}, {"dead", "discard", "--all", "--reason", "a test"},
			{"parked", "list"}, {"parked", "show", salesReport, parked}, {"parked", "show", salesReport, broken}, {"parked", "redrive", salesReport, "--all"},
			{"parked", "redrive", salesReport, parked, "--force", "--reason", "a test"}, {"reconcile"}, {"reconcile", "--republish"}, {"doctor"},
			{"parked", "redrive", salesReport, "--all", "--yes", "--wait", "1ms"}, {"parked", "discard", salesReport, "--all", "--reason", "a test", "--yes"},
			{"dead", "redrive", "--all", "--yes"}, {"audit"}, {"purge", "--yes"},
		} {
			for _, format := range []string{"table", "json"} {
				stdout, stderr, code := command(t, append(args, "-f", "../../events.yaml", "--dsn", server.DSN, "--format", format)...)
				if code > 1 {
					t.Errorf("%v: %d %s%s", args, code, stdout, stderr)
				}
				if strings.Contains(stdout+stderr, canary) {
					t.Errorf("%v shows it:\n%s%s", args, stdout, stderr)
				}
			}
		}
		if n := count(t, db, "outbox_audit WHERE detail LIKE '%canary%'"); n != 0 {
			t.Errorf("the audit has it %d times", n)
		}
	})
}
