package rolling

import (
	"database/sql"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/natsserver"
)

// TestRollingDeploy: rows that the old build wrote are applied after the new one is
// deployed. When a new writer comes before its consumers, they park what they can't
// read, go on with the rest, and a redrive by the new build applies it; version 1, which the new
// build writes as long as it is not deprecated, is for both. Each event has one effect.
func TestRollingDeploy(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	app := build(t)
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		t.Parallel()
		cfg := server.Config()
		cfg.ReadTimeout, cfg.WriteTimeout, cfg.InterpolateParams = 30*time.Second, 30*time.Second, true
		d := deployment{t: t, env: []string{"ROLLING_DSN=" + cfg.FormatDSN(), "ROLLING_NATS=" + natsserver.StartT(t, natsserver.Config{}).URL()}}
		server.Exec(t, append(orderevents.Schema(),
			`CREATE TABLE effect (
				id BIGINT AUTO_INCREMENT PRIMARY KEY,
				event_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
				order_id BIGINT NOT NULL, total VARCHAR(40) NOT NULL, build VARCHAR(10) NOT NULL)`)...)
		see := witness{t, server.Open(t)}

		d.run(app.old, "ensure")
		t.Log("what the old build wrote is applied by the new one")
		d.run(app.old, "write", "1", "1", "20")
		stopRelay, stopConsumer := d.start(app.new, "relay"), d.start(app.new, "consume")
		see.soon("SELECT COUNT(*) FROM effect WHERE build = 'new'", 20)
		stopRelay()
		stopConsumer()

		t.Log("a new writer before its consumers")
		stopRelay, stopConsumer = d.start(app.old, "relay"), d.start(app.old, "consume")
		d.run(app.new, "write", "2", "101", "110")
		see.soon("SELECT COUNT(*) FROM parked_event WHERE kind = 'version' AND reason LIKE '%order.accepted has schema version 2%'", 10)
		d.run(app.new, "write", "1", "101", "120")
		d.run(app.old, "write", "1", "121", "130")
		see.soon("SELECT COUNT(*) FROM effect WHERE build = 'old'", 30)
		see.soon("SELECT COUNT(*) FROM outbox_event WHERE published_at IS NULL", 0)
		see.now("SELECT COUNT(*) FROM parked_event", 10)
		stopConsumer()

		t.Log("the new build follows, and applies what was parked")
		stopConsumer = d.start(app.new, "consume")
		d.run(app.new, "redrive")
		see.now("SELECT COUNT(*) FROM parked_event", 0)
		d.run(app.new, "write", "2", "201", "210")
		d.run(app.old, "write", "1", "211", "220") // the last writer of the old build
		see.soon("SELECT COUNT(*) FROM effect", 80)
		d.run(app.new, "redrive")
		stopConsumer()
		stopRelay()

		see.now("SELECT COUNT(DISTINCT event_id) FROM effect", 80)
		see.now("SELECT COUNT(*) FROM effect JOIN outbox_event USING (event_id) WHERE total = CONCAT(order_id, '.25 CNY')", 80)
		see.now("SELECT COUNT(*) FROM outbox_event", 80)
		see.now("SELECT COUNT(*) FROM parked_event", 0)
	})
}

// witness counts in the database.
type witness struct {
	t  *testing.T
	db *sql.DB
}

func (w witness) count(query string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRowContext(w.t.Context(), query).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w witness) now(query string, want int) {
	w.t.Helper()
	if n := w.count(query); n != want {
		w.t.Errorf("%s: %d, want %d", query, n, want)
	}
}

// soon waits for other processes, which give no signal.
func (w witness) soon(query string, want int) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if w.count(query) == want {
			return
		}
	}
	w.t.Fatalf("%s: %d, want %d", query, w.count(query), want)
}
