package waiting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

const full = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
outbox: { ordering: aggregate }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    versions:
      1:
        deprecated: superseded
        fields: { order_id: int64, order_version: int64 }
      2:
        fields: { order_id: int64, order_version: int64 }
  order.cancelled:
    deprecated: nobody needs it
    aggregate: { type: order, id: order_id, version: order_version }
    fields: { order_id: int64, order_version: int64 }
consumers:
  audit:
    handles: [order.accepted, order.cancelled]
  report:
    deprecated: nobody reads it
    handles: [order.accepted]
`

// less is full without version 1, an event and a consumer.
const less = `version: 1
service: orders
go: { package: orderevents, out: gen/orderevents }
events:
  order.accepted:
    aggregate: { type: order, id: order_id, version: order_version }
    versions:
      2:
        fields: { order_id: int64, order_version: int64 }
consumers:
  audit:
    handles: [order.accepted]
`

func TestWaiting(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, prefix, ordering string) {
		server.Exec(t,
			row(prefix, 1, "order.accepted", 1, 0), row(prefix, 2, "order.accepted", 1, 0), row(prefix, 3, "order.accepted", 1, 3),
			row(prefix, 4, "order.accepted", 1, 2), row(prefix, 5, "order.accepted", 2, 0), row(prefix, 6, "order.cancelled", 1, 3),
			row(prefix, 7, "order.accepted", 1, 0),
			park(prefix, 11, "audit", "order.accepted", 1, "attempts"), park(prefix, 12, "audit", "order.accepted", 2, "attempts"),
			park(prefix, 13, "report", "order.accepted", 2, "permanent"), park(prefix, 14, "audit", "", 0, "message"),
			park(prefix, 15, "audit", "order.unknown", 1, "type"), park(prefix, 16, "audit", "order.accepted", 3, "version"),
		)
		edit := func(src string) *spec.Model { return parsed(t, settings(src, prefix, ordering)) }
		expect(t, server, nil, edit(full), "")
		expect(t, server, edit(full), edit(full), "")

		const gone = `events.yaml: the consumer "report" is needed by events that wait: 1 parked (00000000-0000-7000-8000-000000000013) [events-parked]
    hint: bring it back until they are published, redriven or deleted
events.yaml: version 1 of "order.cancelled" is needed by events that wait: 1 dead (00000000-0000-7000-8000-000000000006) [rows-waiting]
    hint: bring it back until they are published, redriven or deleted
events.yaml:6:3: version 1 of "order.accepted" is needed by events that wait: 1 parked (00000000-0000-7000-8000-000000000011) [events-parked]
    hint: bring it back until they are published, redriven or deleted
events.yaml:6:3: version 1 of "order.accepted" is needed by events that wait: 3 pending, 1 dead (00000000-0000-7000-8000-000000000001, 00000000-0000-7000-8000-000000000002, 00000000-0000-7000-8000-000000000003 and 1 more) [rows-waiting]
    hint: bring it back until they are published, redriven or deleted
`
		expect(t, server, nil, edit(less), gone)
		expect(t, server, edit(full), edit(less), gone)

		// What a consumer parked since it couldn't read it counts when it could be read since.
		server.Exec(t, park(prefix, 17, "audit", "order.cancelled", 1, "type"))
		expect(t, server, nil, edit(less), gone)
		got := findings(t, server, edit(full), edit(less))
		if !strings.Contains(got, `version 1 of "order.cancelled" is needed by events that wait: 1 parked (00000000-0000-7000-8000-000000000017)`) {
			t.Errorf("redriven, it could have been applied:\n%s", got)
		}

		// A consumer that no longer handles an event could not redrive it.
		fewer := strings.Replace(full, "[order.accepted, order.cancelled]", "[order.cancelled]", 1)
		got = findings(t, server, nil, edit(fewer))
		if want := `"order.accepted" in handles of "audit" is needed by events that wait: 2 parked`; !strings.Contains(got, want) {
			t.Errorf("not found: %s\n%s", want, got)
		}
	})
}

// The tables before the deploy are those of the base.
func TestOtherPrefix(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, prefix, ordering string) {
		server.Exec(t, row(prefix, 6, "order.cancelled", 1, 0))
		base, current := parsed(t, settings(full, prefix, ordering)), parsed(t, settings(less, "other_", ordering))
		if got := findings(t, server, base, current); !strings.Contains(got, `version 1 of "order.cancelled" is needed`) {
			t.Errorf("found: %s", got)
		}
	})
}

func TestErrors(t *testing.T) {
	current := parsed(t, full)
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		_, err := Check(t.Context(), opened(t, server.DSN), nil, current)
		var e *Error
		if err == nil || !strings.Contains(err.Error(), "a table of the outbox is not there yet") || !errors.As(err, &e) || !strings.Contains(e.Hint, "schema.sql") {
			t.Errorf("without tables: %v", err)
		}
		cfg := server.Config()
		cfg.User, cfg.Passwd = "nobody", "geheim"
		_, err = Check(t.Context(), opened(t, cfg.FormatDSN()), nil, current)
		if err == nil || strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "Access denied") {
			t.Errorf("with a wrong password: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = Check(ctx, opened(t, server.DSN), nil, current); !strings.Contains(fmt.Sprint(err), "context canceled") {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// The look goes by the claim's index, whatever the optimizer thinks of it.
func TestIndex(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, prefix, ordering string) {
		server.Exec(t, "ALTER TABLE "+prefix+"outbox_event DROP INDEX ix_"+prefix+"outbox_event_claim")
		_, err := Check(t.Context(), opened(t, server.DSN), nil, parsed(t, settings(full, prefix, ordering)))
		if !strings.Contains(fmt.Sprint(err), "a table of the outbox is of another version") {
			t.Errorf("without the index: %v", err)
		}
	})
}

// No more rows are looked at than is said, and that there are more is no secret.
func TestMostRows(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, prefix, ordering string) {
		current := parsed(t, settings(less, prefix, ordering))
		for i := range 5 {
			server.Exec(t, row(prefix, i, "order.accepted", 2, 0))
		}
		for _, c := range []struct {
			most int
			want string
		}{{5, ""}, {4, "more than 4 events are pending: only the first 4 were looked at"}} {
			l := &look{db: server.Open(t), prefix: prefix, current: current, most: c.most}
			if err := l.all(t.Context()); fmt.Sprint(err) != c.want && !(err == nil && c.want == "") {
				t.Errorf("at most %d: %v", c.most, err)
			}
		}
	})
}

// each runs fn on both databases and with both layouts of the tables, with and without
// a prefix.
func each(t *testing.T, fn func(t *testing.T, server dbtest.Database, prefix, ordering string)) {
	for ordering, prefix := range map[string]string{"aggregate": "", "none": "shop_"} {
		t.Run(ordering, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
				t.Parallel()
				out, problems := sqlgen.Generate(parsed(t, settings(full, prefix, ordering)))
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				server.Exec(t, out.DDL...)
				fn(t, server, prefix, ordering)
			})
		})
	}
}

func settings(src, prefix, ordering string) string {
	out := "outbox: { ordering: " + ordering
	if prefix != "" {
		out += ", table_prefix: " + prefix
	}
	src = strings.Replace(src, "outbox: { ordering: aggregate }\n", "", 1)
	return strings.Replace(src, "\nevents:", "\n"+out+" }\nevents:", 1)
}

func parsed(t *testing.T, src string) *spec.Model {
	t.Helper()
	model, problems := spec.Parse("events.yaml", []byte(src))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return model
}

func id(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", n) }

func row(prefix string, n int, event string, version, status int) string {
	return fmt.Sprintf(`INSERT INTO %soutbox_event
		(event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, status, available_at)
		VALUES ('%s', 'order', '%d', '%s', 1, %d, '{}', '{}', UTC_TIMESTAMP(6), %d, UTC_TIMESTAMP(6))`, prefix, id(n), n, event, version, status)
}

func park(prefix string, n int, consumer, event string, version int, kind string) string {
	attributes := fmt.Sprintf(`{"schemaversion":"%d","type":"%s"}`, version, event)
	if kind == "message" {
		attributes = `{"reference":"1"}`
	}
	return fmt.Sprintf(`INSERT INTO %sparked_event
		(consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
		VALUES ('%s', '%s', '%s', '%s', '', 1, '%s', '{}', '{}', UTC_TIMESTAMP(6))`, prefix, consumer, id(n), event, kind, attributes)
}

func expect(t *testing.T, server dbtest.Database, base, current *spec.Model, want string) {
	t.Helper()
	if diff := cmp.Diff(want, findings(t, server, base, current)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func opened(t *testing.T, text string) *sql.DB {
	t.Helper()
	db, err := dsn.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func findings(t *testing.T, server dbtest.Database, base, current *spec.Model) string {
	t.Helper()
	list, err := Check(t.Context(), opened(t, server.DSN), base, current)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := diag.Text(&b, list.Sorted()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
