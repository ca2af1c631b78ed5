package integration

import (
	"os"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func million() bool { return os.Getenv("OUTBOXGEN_MILLION") != "" }

// millionPart is how many rows one statement writes.
const millionPart = 25_000

// fillMillion writes a million events of the last ten hours, most of them published, of 200,000
// orders, and what two consumers made of those.
func fillMillion(t *testing.T, k kind, db *outbox.DB) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE digit (d INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
	mustExec(t, db, "CREATE TABLE num (n INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO num SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d + 100000*g.d FROM digit a, digit b, digit c, digit e, digit f, digit g")
	last := "next_attempt_at"
	if !k.ordered {
		last = "lease_until"
	}
	// A new event every 36 ms; every thousandth is dead, the newest 20,000 are pending. In parts: one
	// statement of a million rows takes longer than a driver waits.
	for first := 0; first < 1_000_000; first += millionPart {
		mustExec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version, payload, headers, created_at, status, attempts, available_at, published_at, `+last+`)
SELECT CONCAT(LEFT(ms, 8), '-', RIGHT(ms, 4), '-7000-8000-', LPAD(LOWER(HEX(n)), 12, '0')), 'order', n % 200000, IF(n % 5 = 0, 'order.cancelled', 'order.accepted'), 1 + n DIV 200000, 1, '{"a": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}', '{}', made,
  IF(n >= 980000, 0, IF(n % 1000 = 0, 3, 2)), IF(n % 1000 = 0, 3, 0), made, IF(n >= 980000 OR n % 1000 = 0, '1970-01-01', made + INTERVAL 1 SECOND), '1970-01-01'
FROM (SELECT n, UTC_TIMESTAMP(6) - INTERVAL (1000000 - n) * 36 * 1000 MICROSECOND AS made,
  LPAD(LOWER(HEX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6) - INTERVAL (1000000 - n) * 36 * 1000 MICROSECOND) DIV 1000)), 12, '0') AS ms FROM num WHERE n >= ? AND n < ?) rows_of`, first, first+millionPart)
	}
	mustExec(t, db, "INSERT INTO outbox_failure SELECT event_id, 'rejected', 'the broker refused it', UTC_TIMESTAMP(6) FROM outbox_event WHERE status = 3")
	for _, consumer := range []string{salesReport, "notification-planner"} {
		for behind, n := "", millionPart; n == millionPart; {
			mustExec(t, db, "INSERT INTO consumed_event (consumer_name, event_id, consumed_at, outcome) SELECT ?, event_id, published_at, 1 FROM outbox_event WHERE status = 2 AND event_id > ? ORDER BY event_id LIMIT ?", consumer, behind, millionPart)
			n = count(t, db, "consumed_event WHERE consumer_name = ? AND event_id > ?", consumer, behind)
			if err := db.QueryRowContext(t.Context(), "SELECT MAX(event_id) FROM consumed_event WHERE consumer_name = ?", consumer).Scan(&behind); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustExec(t, db, `INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
SELECT 'sales-report', event_id, event_type, 'attempts', 'no', 3, '{}', '{}', REPEAT('x', 500), UTC_TIMESTAMP(6) FROM outbox_event WHERE status = 2 ORDER BY event_id DESC LIMIT 1000`)
	mustExec(t, db, "ANALYZE TABLE outbox_event, consumed_event")
}
