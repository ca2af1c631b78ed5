package integration

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/salesreport"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/example/orders"
	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// rolePool is a pool of the user of as.
func rolePool(t *testing.T, server dbtest.Database, config, role string, more ...string) *outbox.DB {
	t.Helper()
	return open(t, as(t, server, config, role, more...).DSN)
}

// as makes the user of a role as outboxgen doctor --grants prints it, with what it prints for some
// commands, and more grants where the test has tables of its own. It returns the database as that
// user connects to it.
func as(t *testing.T, server dbtest.Database, config, role string, more ...string) dbtest.Database {
	t.Helper()
	pool := server.Open(t)
	name := "r_" + server.Name[len(server.Name)-12:] + "_" + role
	script, stderr, code := command(t, "doctor", "-f", config, "--dsn", server.DSN, "--grants", "--role", role, "--user", name, "--host", "127.0.0.1")
	if code != 0 || !strings.Contains(script, "GRANT ") {
		t.Fatalf("%d %s%s", code, script, stderr)
	}
	user := "'" + name + "'@'127.0.0.1'"
	var statements []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if create, is := strings.CutPrefix(line, "-- CREATE USER"); is {
			statements = append(statements, "CREATE USER"+strings.TrimSuffix(strings.Replace(create, "<password>", "pass", 1), ";"))
		} else if line = strings.TrimPrefix(line, "-- "); strings.HasPrefix(line, "GRANT ") {
			statement, _, _ := strings.Cut(line, ";")
			statements = append(statements, statement)
		}
	}
	for _, m := range more {
		statements = append(statements, "GRANT "+strings.ReplaceAll(m, " ON ", " ON "+server.Name+".")+" TO "+user)
	}
	t.Cleanup(func() { _, _ = pool.Exec("DROP USER IF EXISTS " + user) })
	for _, s := range statements {
		if _, err := pool.ExecContext(t.Context(), s); err != nil {
			if strings.Contains(s, "`orders`") { // the store's suite has no business
				continue
			}
			t.Fatalf("%s: %v", s, err)
		}
	}
	server.DSN = via(t, server, "", func(c *mysql.Config) { c.User, c.Passwd = name, "pass" })
	return server
}

// The store's suite passes with the privileges that doctor prints, on each kind of outbox.
func TestStoreUnderLeastPrivileges(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		for _, k := range kinds {
			t.Run(flavor.String()+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				server := dbtest.New(t, flavor)
				server.Exec(t, k.schema()...)
				writer, relay := rolePool(t, server, k.config(), "writer"), rolePool(t, server, k.config(), "relay")
				db := open(t, server.DSN)
				storesuite.Run(t, func(t *testing.T) storesuite.Harness { return k.harnessOf(t, db, writer, relay) })
				if err := k.newStore(relay).(outbox.Checker).Check(t.Context()); err != nil {
					t.Errorf("the check before a relay's run: %v", err)
				}
			})
		}
	}
}

// So do purges of published events, on each kind.
func TestPurgeUnderLeastPrivileges(t *testing.T) {
	eachPurge(t, func(t *testing.T, k purgeKind, server dbtest.Database, db *outbox.DB) {
		fillAged(t, db, 300, "2", "8*86400000000 + n MICROSECOND", longAgo)
		fillAged(t, db, 20, "0", "8 DAY", notYet)
		mustExec(t, db, `INSERT INTO outbox_failure (event_id, kind, reason, failed_at) SELECT event_id, 'failed', 'no', UTC_TIMESTAMP(6) FROM outbox_event`)
		mustExec(t, db, `INSERT INTO outbox_relay (owner, host, pid, started_at, alive_until) VALUES ('old', 'h', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 8 DAY)`)
		pass := mustPurge(t, k.purger(t, rolePool(t, server, k.config(), "event-purger"), purge.Config{BatchSize: 100}))
		if want := (purge.Purged{Events: 300, Relays: 1}); !pass.Elected || pass.Purged != want || count(t, db, "outbox_failure") != 20 {
			t.Errorf("%+v", pass)
		}
	})
}

// A consumer with `stale: drop` finds what it needs.
func TestStaleUnderLeastPrivileges(t *testing.T) {
	eachState(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		consumer := stateConsumer(rolePool(t, server, rowsKind.config(), "consumer", "SELECT, INSERT, DELETE ON state", "INSERT ON applied"), keepState(t))
		newer := versionOf(t, "1", 2)
		ends(t, consumer, newer, outbox.Applied)
		ends(t, consumer, versionOf(t, "1", 1), outbox.Skipped)
		ends(t, consumer, newer, outbox.Duplicate)
		if n := count(t, db, "applied"); n != 1 {
			t.Errorf("%d are applied, want 1", n)
		}
	})
}

// business are the grants that the example's own statements need.
var business = map[string][]string{
	"writer":   {"SELECT, INSERT, UPDATE (status, version) ON orders", "INSERT ON order_line", "SELECT, UPDATE (available) ON stock"},
	"consumer": {"INSERT ON notification_job", "SELECT, INSERT, UPDATE ON sales_report"},
}

// The example runs with a user for each of its parts: an order goes from its entry through the
// relay to both consumers, one event is parked, redriven by an operator and applied, and all of
// it is purged.
func TestExampleUnderLeastPrivileges(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		pool := func(role string) *outbox.DB {
			return rolePool(t, server, lanesKind.config(), role, business[role]...)
		}
		mustExec(t, db, "INSERT INTO stock (sku, available) VALUES ('apple', 1000)")
		mustExec(t, db, "INSERT INTO notification_channel (tenant_id, channel) VALUES (1, 'mail')")
		writer, consumers := pool("writer"), pool("consumer")

		service := orders.NewService(writer)
		request := orders.Request{TenantID: 1, RequestID: "r-1", Currency: orderevents.CurrencyEUR, Lines: acceptedPayload(1).Lines}
		order, _, err := service.Accept(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := orderevents.ReconcileOrderAccepted(t.Context(), writer, 1, "r-1"); err != nil || !found.Found {
			t.Errorf("reconcile: %+v, %v", found, err)
		}
		if _, created, err := service.Accept(t.Context(), request); err != nil || created {
			t.Errorf("a repeat: %v, %v", created, err)
		}
		if _, err := service.Cancel(t.Context(), 1, order.ID, orderevents.OrderCancelledReasonCustomer); err != nil {
			t.Error(err)
		}
		request.TenantID = 4 // without a channel: the planner fails
		stuck, _, err := service.Accept(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := service.EventState(t.Context(), order); err != nil || s.State != "PENDING" {
			t.Errorf("%+v, %v", s, err)
		}

		quietly := &outbox.ConsumerConfig{Logger: slog.New(slog.DiscardHandler)}
		broker := outboxtest.NewBroker(outboxtest.BrokerConfig{Logger: quietly.Logger})
		defer broker.Close()
		startRelay(t, orderevents.NewStore(pool("relay")), broker, outbox.RelayConfig{})
		awaitPublished(t, db)
		planner := orderevents.NewNotificationPlanner(consumers, &notificationplanner.Handler{}, &upcasts.Upcaster{}, quietly)
		running := subscribe(t, broker, planner, orderevents.NewSalesReport(consumers, &salesreport.Handler{}, &upcasts.Upcaster{}, quietly))
		await(t, db, "parked_event WHERE event_id = ?", stuck.EventID)
		await(t, db, "sales_report WHERE tenant_id = 4")
		await(t, db, "notification_job WHERE kind = 'order-cancelled'")
		running()

		mustExec(t, db, "INSERT INTO notification_channel (tenant_id, channel) VALUES (4, 'mail')")
		mustExec(t, pool("operator"), `INSERT INTO consumer_redrive (consumer_name, event_id, operator, requested_at, due_at)
			VALUES (?, ?, 'me', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`, orderevents.ConsumerNameNotificationPlanner, stuck.EventID)
		redrive(t, db, planner, stuck.EventID)

		mustExec(t, db, "UPDATE consumed_event SET consumed_at = consumed_at - INTERVAL 91 DAY")
		if pass := mustPurge(t, dedupPurger(t, pool("dedup-purger"), purge.Config{})); pass.Consumed != 5 {
			t.Errorf("%+v", pass)
		}
		for _, s := range []string{"UPDATE outbox_event SET payload = '{}'", "DELETE FROM outbox_event", "SELECT payload FROM outbox_event"} {
			_, err := writer.ExecContext(t.Context(), s)
			var denied *mysql.MySQLError
			if !errors.As(err, &denied) || denied.Number != 1142 && denied.Number != 1143 {
				t.Errorf("a writer may run %s: %v", s, err)
			}
		}
	})
}

// subscribe runs consumers until the function that it returns is called.
func subscribe(t *testing.T, broker *outboxtest.Broker, consumers ...*outbox.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, len(consumers))
	for _, c := range consumers {
		go func() { done <- broker.Subscribe(ctx, c) }()
	}
	return func() {
		cancel()
		for range consumers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// redrive runs a consumer's redrives until the one of an event was carried out.
func redrive(t *testing.T, db *outbox.DB, consumer *outbox.Consumer, id uuid.UUID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- consumer.RunRedrives(ctx) }()
	await(t, db, "outbox_audit WHERE event_id = ? AND operation = 'parked.redriven'", id)
	await(t, db, "notification_job WHERE event_id = ?", id)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What a migrator may do is enough for the tables, the changes that schema diff prints, and
// what undoes them.
func TestMigratorUnderLeastPrivileges(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		t.Run(flavor.String(), func(t *testing.T) {
			t.Parallel()
			server := dbtest.New(t, flavor)
			server.Exec(t, schema.Statements()...)
			db := rolePool(t, server, lanesKind.config(), "migrator")
			for _, s := range orderevents.Schema() {
				mustExec(t, db, s)
			}
			mustExec(t, db, "ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim")
			mustExec(t, db, "ALTER TABLE outbox_event ADD KEY ix_outbox_event_claim (status, lane, available_at, event_version, aggregate_hash)")
			mustExec(t, db, "DROP VIEW outbox_event_state")
			mustExec(t, db, "DROP TABLE outbox_audit")
		})
	}
}

// An operator can do what outboxgen's commands do by hand, and a reader can look at all of it.
func TestOperationsUnderLeastPrivileges(t *testing.T) {
	eachKind(t, kinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		operator := operations(t, k, as(t, server, k.config(), "operator"))
		ids := k.bury(t, db, 1, 4)
		must := func(what string, want int, results []ops.Result, err error) {
			t.Helper()
			if err != nil || doneOf(results) != want {
				t.Errorf("%s: %+v, %v", what, results, err)
			}
		}
		if _, _, err := operator.PauseClaims(t.Context(), "a test"); err != nil {
			t.Error(err)
		}
		if _, err := operator.ResumeClaims(t.Context()); err != nil {
			t.Error(err)
		}
		dead := func(s ops.Selection) ops.Plan {
			plan, err := operator.PlanDead(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			return plan
		}
		results, err := operator.RedriveDead(t.Context(), dead(ops.Selection{IDs: ids[:1]}), ops.Pace{})
		must("redrive dead", 1, results, err)
		results, err = operator.DiscardDead(t.Context(), dead(ops.Selection{All: true}), "a test", ops.Pace{})
		must("discard dead", 3, results, err)
		if _, err := operator.Purge(t.Context(), ops.PurgeOptions{Discarded: time.Microsecond, Audit: time.Microsecond}); err != nil {
			t.Errorf("purge what was discarded, and the audit: %v", err)
		}
		if len(operator.Model().Consumers) > 0 && k.name == lanesKind.name {
			operateParked(t, operator, db, must)
		}

		reader := operations(t, k, as(t, server, k.config(), "reader"))
		for what, look := range map[string]func() error{
			"status": func() error { _, err := reader.Status(t.Context()); return err },
			"show":   func() error { _, err := reader.Show(t.Context(), ids[0]); return err },
			"find":   func() error { _, err := reader.Find(t.Context(), ops.Query{}); return err },
			"dead":   func() error { _, err := reader.Dead(t.Context(), ops.DeadQuery{}); return err },
			"parked": func() error { _, err := reader.Parked(t.Context(), ops.ParkedQuery{}); return err },
			"audit":  func() error { _, err := reader.Audit(t.Context(), ops.AuditQuery{}); return err },
		} {
			if err := look(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, _, err := reader.PauseClaims(t.Context(), "a test"); err == nil {
			t.Error("a reader may pause claims")
		}
	})
}

// operateParked parks events, has one redriven, discards one, and forces another delivery.
func operateParked(t *testing.T, operator *ops.Service, db *outbox.DB, must func(string, int, []ops.Result, error)) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE tally (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
	consumer := report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("no")) })
	var ids []uuid.UUID
	for range 2 {
		e := envelope(t)
		ends(t, consumer, e, outbox.Parked)
		ids = append(ids, e.ID)
	}
	parked := func(s ops.Selection) ops.Plan {
		plan, err := operator.PlanParked(t.Context(), salesReport, s)
		if err != nil {
			t.Error(err)
		}
		return plan
	}
	results, err := operator.RedriveParked(t.Context(), parked(ops.Selection{IDs: ids[:1]}), ops.Pace{})
	must("redrive parked", 1, results, err)
	results, err = operator.DiscardParked(t.Context(), parked(ops.Selection{IDs: ids[1:]}), "a test", ops.Pace{})
	must("discard parked", 1, results, err)

	applied := writeEvents(t, db, 1)
	batch := claimN(t, lanesKind.newStore(db), storesuite.NewOwner(), 100)
	settleAll(t, lanesKind.newStore(db), batch, outbox.OutcomePublished)
	mustExec(t, db, "UPDATE outbox_event SET status = 2 WHERE event_id = ?", applied[0])
	mustExec(t, db, "INSERT INTO consumed_event (consumer_name, event_id, consumed_at) VALUES (?, ?, UTC_TIMESTAMP(6))", salesReport, applied[0])
	plan, err := operator.PlanForce(t.Context(), salesReport, applied)
	if err != nil {
		t.Fatal(err)
	}
	results, err = operator.Force(t.Context(), plan, "a test", ops.Pace{})
	must("force", 1, results, err)
}
