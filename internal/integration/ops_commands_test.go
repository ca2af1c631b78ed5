package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What the commands say of events in every state, and their exit codes.
func TestLookCommands(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ask := asks(t, k, server)
		dead := k.bury(t, db, 100, 3)
		published := k.writeEvents(t, db, 1, 4)
		k.publishDue(t, db)
		pending := k.writeEvents(t, db, 200, 2)
		unknown := outbox.NewEventID().String()

		ask.want(0, []string{"pending", "dead", "order.accepted", "rejected", "NO RELAY IS ALIVE", "no lease is held"}, "status")
		ask.want(0, []string{"state", "DEAD", "order/100, version 1", "rejected: the broker refused it"}, "show", dead[0].String())
		ask.want(0, []string{"PENDING"}, "show", "{"+strings.ToUpper(pending[0].String())+"}")
		ask.want(1, []string{"nobody knows it"}, "show", unknown)
		ask.want(2, []string{`"order-17" is not an event id`, "hint: an event id is a UUID"}, "show", "order-17")
		ask.want(2, []string{"give one event id"}, "show")

		ask.want(0, []string{pending[0].String(), "order/200"}, "find", "--aggregate", "order/200")
		ask.want(0, []string{"no such event was found"}, "find", "--aggregate", "order/987")
		ask.want(0, []string{pending[0].String(), pending[1].String()}, "find", "--status", "PENDING", "--since", "2h")
		ask.want(0, []string{"no such event was found"}, "find", "--until", "2h")
		old := uuid.MustParse("019b76da-a800-7000-8000-000000000001") // of the time that it says
		if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return k.write(t.Context(), tx, old, 300, 1) }); err != nil {
			t.Fatal(err)
		}
		ask.want(0, []string{"no such event was found"}, "find", "--aggregate", "order/300", "--since", "2h")
		ask.want(0, []string{old.String()}, "find", "--aggregate", "order/300", "--since", "2026-01-01T00:00:00Z", "--until", "2h")
		ask.want(2, []string{`no status "lost"`}, "find", "--status", "lost")
		ask.want(2, []string{`no event type "order.acepted"`, `did you mean "order.accepted"?`}, "find", "--type", "order.acepted")
		ask.want(2, []string{"write them with a slash between"}, "find", "--aggregate", "order")
		ask.want(2, []string{"is neither a time nor a duration"}, "find", "--since", "yesterday")
		ask.want(2, []string{"is not from 1 to 1000"}, "find", "--limit", "0")
		ask.want(2, []string{"is not an event id"}, "find", "--before", "x")
		var walked []string
		for next := ""; ; {
			args := []string{"find", "--status", "dead", "--limit", "2"}
			if next != "" {
				args = append(args, "--before", next)
			}
			var page ops.Page[ops.Event]
			ask.data(&page, args...)
			for _, e := range page.Items {
				walked = append(walked, e.EventID.String())
			}
			if next = page.Next; next == "" {
				break
			}
			ask.want(0, []string{"there is more: --before " + next}, args...)
		}
		if want := []string{dead[2].String(), dead[1].String(), dead[0].String()}; !slices.Equal(walked, want) {
			t.Errorf("page by page the dead are %v, want %v", walked, want)
		}

		ask.want(0, []string{dead[0].String(), "rejected", "there is more: --cursor " + dead[1].String()}, "dead", "list", "--limit", "2", "--kind", "rejected", "--after", "1h", "--type", "order.accepted")
		ask.want(0, []string{dead[2].String()}, "dead", "list", "--limit", "2", "--cursor", dead[1].String())
		ask.want(0, []string{"no such event is dead"}, "dead", "list", "--before", "1h")
		ask.want(0, []string{"no such event is discarded"}, "dead", "list", "--discarded")
		ask.want(0, []string{"published meanwhile", "DEAD"}, "dead", "show", dead[0].String())
		ask.want(1, []string{"the event is not dead"}, "dead", "show", pending[0].String())
		ask.want(0, []string{"nothing of it is in the audit"}, "audit")
		ask.want(0, []string{"1 event made due again"}, "dead", "redrive", "--yes", dead[2].String())
		ask.want(0, []string{"dead.redrive", dead[2].String()}, "audit", "--event", dead[2].String(), "--operation", "dead.redrive")
		ask.want(0, []string{"nothing of it is in the audit"}, "audit", "--operator", "somebody@else")
		ask.want(0, []string{"dead.redrive"}, "show", dead[2].String())
		ask.want(0, []string{"claims are paused"}, "pause", "--reason", "the broker moves")
		ask.want(0, []string{"CLAIMS ARE PAUSED by", "the broker moves"}, "status")
		ask.want(0, []string{"claims go on"}, "resume")

		owner := outbox.Owner{ID: outbox.NewEventID(), Host: "relay-host", PID: 4711}
		claimN(t, k.newStore(db), owner, 500)
		ask.want(0, []string{owner.ID.String(), "relay-host", "4711"}, "status")
		ask.want(0, []string{"PUBLISHING", "leased by", owner.ID.String(), "relay-host"}, "show", pending[0].String())
		if !k.deletes {
			ask.want(0, []string{"PUBLISHED"}, "show", published[0].String())
		}
	})
}

// A redrive comes behind the later events of its aggregate that were published meanwhile: dead show counts them.
func TestDeadShowCountsLaterEvents(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		write := func(version int64) (id uuid.UUID) {
			id = outbox.NewEventID()
			if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return k.write(t.Context(), tx, id, 7, version) }); err != nil {
				t.Fatal(err)
			}
			return id
		}
		write(1)
		k.publishDue(t, db)
		dead := write(2)
		k.buryDue(t, db)
		for version := int64(3); version <= 5; version++ {
			write(version)
		}
		k.publishDue(t, db)
		write(6)
		want := "3 later events of its aggregate: a redrive comes behind them"
		switch {
		case !k.ordered:
			want = "events have no order"
		case k.deletes:
			want = "not known: published events are deleted"
		}
		asks(t, k, server).want(0, []string{want}, "dead", "show", dead.String())
	})
}

// The other events of an aggregate are counted, and the next one is named.
func TestShowCountsTheAggregate(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := make([]uuid.UUID, 5)
		for i := range ids {
			ids[i] = outbox.NewEventID()
			if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return k.write(t.Context(), tx, ids[i], 7, int64(i+1)) }); err != nil {
				t.Fatal(err)
			}
		}
		k.writeEvents(t, db, 100, 3)
		asks(t, k, server).want(0, []string{"1 earlier and 3 later; next: " + ids[2].String()}, "show", ids[1].String())
		asks(t, k, server).want(0, []string{"4 earlier and 0 later"}, "show", ids[4].String())
	})
}

// A business row without an event is told from an event that may have been purged.
func TestShowOfABusinessRow(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		ask := asks(t, lanesKind, server)
		lost := outbox.NewEventID()
		old := uuid.MustParse("019b76da-a800-7000-8000-000000000001") // of the time that it says
		for i, id := range []uuid.UUID{lost, old} {
			if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
				_, err := insertOrder(t.Context(), tx, 7, fmt.Sprint("r-", i), id)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		ask.want(0, []string{"committed without an event", "business row", "orders, aggregate 1, of order.accepted"}, "show", lost.String())
		ask.want(0, []string{"the business row was committed", "purged after"}, "show", old.String())
		mustExec(t, db, "DROP TABLE order_line, orders")
		ask.want(1, []string{"nobody knows it", "no row of orders was looked for"}, "show", lost.String())
	})
}

// What a consumer made of events, in each of its states; its tables may be in another database.
func TestConsumedCommand(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		other := dbtest.New(t, server.Flavor)
		other.Exec(t, lanesKind.schema()...)
		for name, in := range map[string]struct {
			db   *outbox.DB
			more []string
		}{
			"beside":    {db, nil},
			"elsewhere": {open(t, other.DSN), []string{"--consumer-dsn", salesReport + "=" + other.DSN}},
		} {
			t.Run(name, func(t *testing.T) {
				ask := asks(t, lanesKind, server)
				ask.more = in.more
				ids := lanesKind.writeEvents(t, db, 1, 4)
				ask.want(1, []string{"nothing yet", "not published yet: the event is PENDING"}, "consumed", salesReport, ids[0].String())
				lanesKind.publishDue(t, db)
				ask.want(1, []string{"nothing yet", "has not delivered it"}, "consumed", salesReport, ids[0].String())

				var fail error
				consumer := report(in.db, func(context.Context, *outbox.Tx, string) error { return fail })
				event := func(i int) outbox.Envelope { e := envelope(t); e.ID = ids[i]; return e }
				ends(t, consumer, event(0), outbox.Applied)
				fail = errors.New("the rate is missing")
				fails(t, consumer, event(1), outbox.FailureFailed, 1)
				fail = outbox.Permanent(errors.New("no such tenant"))
				ends(t, consumer, event(2), outbox.Parked)

				ask.want(0, []string{salesReport + ": applied"}, "consumed", salesReport, ids[0].String())
				ask.want(1, []string{salesReport + ": failing", "the rate is missing", "1 failed attempt"}, "consumed", salesReport, ids[1].String())
				ask.want(0, []string{salesReport + ": parked", "permanent: no such tenant"}, "consumed", salesReport, strings.ToUpper(ids[2].String()))
				ask.want(1, []string{"nobody knows it"}, "consumed", salesReport, outbox.NewEventID().String())
				ask.want(2, []string{`no consumer "sales-reprot"`, `did you mean "sales-report"?`}, "consumed", "sales-reprot", ids[0].String())
				ask.want(2, []string{"a consumer and an event id are needed"}, "consumed", salesReport)

				ask.want(0, []string{ids[2].String(), "permanent", "no such tenant"}, "parked", "list", "--kind", "permanent")
				ask.want(0, []string{"no such event is parked"}, "parked", "list", salesReport, "--before", "1h")
				ask.want(0, []string{"permanent", "no such tenant", "the outbox has the event: PUBLISHED"}, "parked", "show", salesReport, ids[2].String())
				ask.want(1, []string{"already processed: applied"}, "parked", "show", salesReport, ids[0].String())
				ask.want(2, []string{"name the consumer"}, "parked", "list", "--cursor", "1")
				ask.want(0, []string{"1 event to be handled again by the processes of sales-report"}, "parked", "redrive", salesReport, ids[2].String(), "--yes", "--wait", "0")
				ask.want(0, []string{"parked, redrive asked for by", "PUBLISHED"}, "show", ids[2].String())
				mustExec(t, db, "DELETE FROM outbox_event WHERE event_id = ?", ids[2].String())
				ask.want(0, []string{"the outbox has no row of it, but consumers have", "its row was deleted"}, "show", ids[2].String())
				ask.want(0, []string{"the outbox has no row of it"}, "parked", "show", salesReport, ids[2].String())
				ask.want(0, []string{"parked.redrive", salesReport, ids[2].String()}, "audit")
				ask.want(0, []string{salesReport, "permanent"}, "status")
			})
		}
	})
}

// A request is found through its business row; the number of its columns is checked.
func TestFindByRequest(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		ask := asks(t, lanesKind, server)
		id := outbox.NewEventID()
		if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return placeOrder(t.Context(), tx, 7, "r,1", id) }); err != nil {
			t.Fatal(err)
		}
		ask.want(0, []string{id.String(), "PENDING"}, "find", "--request", "7", "--request", "r,1")
		ask.want(0, []string{"no business row has this request", "orders (tenant_id, request_id)"}, "find", "--request", "7,r-2")
		ask.want(2, []string{"--request has 3 values", "write --request TENANT_ID,REQUEST_ID for order.accepted"}, "find", "--request", "7,r,1")
		ask.want(2, []string{"no event that is meant has a source"}, "find", "--request", "7,r-1", "--type", "order.cancelled")
	})
}

// Nothing in the tables reaches the terminal as more than text.
func TestHostileValuesAreShownAsText(t *testing.T) {
	eachKind(t, []kind{lanesKind, rowsKind}, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ask := asks(t, k, server)
		for i, name := range slices.Sorted(maps.Keys(hostile)) {
			value := hostile[name]
			ids := k.writeEvents(t, db, int64(100*i+100), 2)
			store, owner := k.newStore(db), outbox.Owner{ID: outbox.NewEventID(), Host: value}
			b := claimN(t, store, owner, 500)
			outcomes := allOutcomes(b, outbox.OutcomeDead)
			for i := range outcomes {
				outcomes[i].Failure, outcomes[i].Reason = outbox.FailureRejected, value
			}
			if _, err := store.Settle(t.Context(), b, outcomes); err != nil {
				t.Fatal(err)
			}
			if err := store.Release(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			mustExec(t, db, "UPDATE outbox_event SET aggregate_id = ? WHERE event_id = ?", value, ids[0].String())
			e := envelope(t)
			e.AggregateID, e.ID = value, ids[0]
			ends(t, report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New(value)) }), e, outbox.Parked)
			mustExec(t, db, "INSERT INTO outbox_audit (happened_at, operation, operator, event_id, detail) VALUES (UTC_TIMESTAMP(6), 'pause', ?, ?, ?)", value, ids[0].String(), value)
			mustExec(t, db, "REPLACE INTO outbox_pause VALUES ('claims', ?, ?, UTC_TIMESTAMP(6))", value, value)

			var found ops.Page[ops.Event]
			ask.data(&found, "find", "--aggregate", "order/"+value)
			if len(found.Items) != 1 || found.Items[0].EventID != ids[0] || found.Items[0].AggregateID != value || found.Items[0].LastError != value {
				t.Errorf("%s: found %+v", name, found)
			}
			var st ops.Status
			ask.data(&st, "status")
			if st.Pause == nil || st.Pause.Reason != value {
				t.Errorf("%s: the pause is %+v", name, st.Pause)
			}
			id := ids[0].String()
			lines := [][]string{
				{"status"}, {"show", id}, {"find"}, {"find", "--aggregate", "order/" + value}, {"dead", "list"}, {"dead", "list", "--aggregate", "order/" + value},
				{"dead", "show", id}, {"audit"}, {"audit", "--operator", value}, {"show", value}, {"find", "--aggregate", value}, {"find", "--type", value},
			}
			if k.name == lanesKind.name {
				lines = append(lines, []string{"parked", "list"}, []string{"parked", "list", salesReport, "--aggregate", "order/" + value}, []string{"parked", "show", salesReport, id}, []string{"consumed", salesReport, id})
			}
			for _, line := range lines {
				text, code := ask.run(line...)
				if name == "lines" && strings.Contains(text, "\nEVENT  STATE") {
					t.Errorf("%v prints a line of somebody else's:\n%s", line, text)
				}
				if asJSON, jsonCode := ask.run(append(line, "--format", "json")...); jsonCode != code || code != 2 && strings.Contains(asJSON, "<script>") {
					t.Errorf("%v ends with %d, as JSON with %d\n%s", line, code, jsonCode, asJSON)
				}
			}
			mustExec(t, db, "DELETE FROM outbox_pause") // the next one is to be claimed
		}
	})
}

// The names in a table's statements have the prefix that events.yaml gives.
func TestLookWithPrefix(t *testing.T) {
	for _, ordering := range []string{"aggregate", "none"} {
		t.Run(ordering, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				ask := asking{t: t, dsn: server.DSN, config: prefixed(t, ordering)}
				ask.schema(server)
				id := outbox.NewEventID().String()
				server.Exec(t, fmt.Sprintf(`INSERT INTO shop_outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, status, available_at)
VALUES ('%s', 'cart', '7', 'cart.paid', 1, 1, '{}', '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}', UTC_TIMESTAMP(6), 3, UTC_TIMESTAMP(6))`, id))
				server.Exec(t, fmt.Sprintf("INSERT INTO shop_consumed_event (consumer_name, event_id, consumed_at) VALUES ('till', '%s', UTC_TIMESTAMP(6))", id))
				ask.want(0, []string{"cart.paid", "till"}, "status")
				ask.want(0, []string{"DEAD", "cart/7", "till", "applied", "0af7651916cd43dd8448eb211c80319c"}, "show", id)
				ask.want(0, []string{id}, "find", "--aggregate", "cart/7")
				ask.want(0, []string{id}, "dead", "list")
				ask.want(0, []string{"DEAD"}, "dead", "show", id)
				ask.want(0, []string{"no such event is parked"}, "parked", "list", "till")
				ask.want(0, []string{"till: applied"}, "consumed", "till", id)
				ask.want(0, []string{"nothing"}, "audit")
			})
		})
	}
}
