package doctor

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

func TestTables(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.exec("ALTER TABLE consumed_event ADD COLUMN note INT")
		p.finds("warning extra-column", "note")
		p.exec("ALTER TABLE consumed_event DROP COLUMN note", "ALTER TABLE outbox_failure DROP COLUMN kind")
		d := p.finds("error missing-column", "kind")
		if !strings.HasSuffix(d.Hint, "outboxgen schema diff prints the statements") {
			p.Errorf("%q", d.Hint)
		}
	})
	each(t, "rows", func(p *patient) {
		p.exec("ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim")
		p.finds("error missing-key", "ix_outbox_event_claim")
		p.exec("DROP TABLE outbox_audit")
		p.finds("error missing-table", "outbox_audit", "error missing-key")
	})
}

// An index of another shape makes claims sort, or read all that is due.
func TestPlans(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.aliveRelays(1)
		p.fill(20_000, 0, "'1970-01-01'")
		p.exec("ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, ADD KEY ix_outbox_event_claim (available_at, lane, status)", "ANALYZE TABLE outbox_event")
		p.finds("warning claim-plan", "SelectDueLanes", "error different-key")
		p.finds("warning claim-plan", "SelectLaneEvents sorts", "error different-key")
		p.exec("ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, ADD KEY ix_outbox_event_claim (aggregate_hash)")
		p.finds("warning claim-plan", "SelectLaneEvents reads outbox_event by no index, not by ix_outbox_event_claim: about ", "error different-key")
	})
	each(t, "rows", func(p *patient) {
		p.aliveRelays(1)
		p.fill(20_000, 0, "'1970-01-01'")
		p.exec("ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, ADD KEY ix_outbox_event_claim (status, event_id)", "ANALYZE TABLE outbox_event")
		p.finds("warning claim-plan", "SelectDueEvents sorts", "error different-key")
	})
}

func TestStaleStatistics(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.aliveRelays(1)
		p.exec("ALTER TABLE outbox_event STATS_AUTO_RECALC = 0", "ANALYZE TABLE outbox_event")
		p.fill(20_000, 0, "'1970-01-01'")
		p.finds("warning statistics-stale", "it has 20000", "warning claim-plan")
		p.exec("ANALYZE TABLE outbox_event")
		p.well()
	})
}

func TestEventsAreNotPurged(t *testing.T) {
	for _, kind := range []string{"lanes", "rows"} {
		each(t, kind, func(p *patient) {
			p.aliveRelays(1)
			p.fill(30, 2, "UTC_TIMESTAMP(6) - INTERVAL 9 DAY")
			p.exec("UPDATE outbox_event SET available_at = UTC_TIMESTAMP(6) - INTERVAL 9 DAY")
			p.finds("warning events-not-purged", "30 or more published events are a day older than keep_published, 168h")
			p.exec("UPDATE outbox_event SET published_at = UTC_TIMESTAMP(6) - INTERVAL 7 DAY - INTERVAL 2 HOUR")
			p.well() // a purge may be late
			p.exec("UPDATE outbox_event SET published_at = UTC_TIMESTAMP(6) - INTERVAL 9 DAY, status = 3")
			p.finds("note events-dead", "30 events are dead")
		})
	}
}

func (p *patient) consumed(n int, consumer, age string, outcome int) {
	p.Helper()
	for i := range n {
		p.exec(fmt.Sprintf("INSERT INTO consumed_event (consumer_name, event_id, consumed_at, outcome) VALUES ('%s', UUID(), UTC_TIMESTAMP(6) - INTERVAL %s, %d)", consumer, age, outcome))
		_ = i
	}
}

func TestDedupRowsAreNotPurged(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.consumed(3, "notification-planner", "32 DAY", 4) // parked ones stay
		p.consumed(3, "sales-report", "80 DAY", 1)
		p.well()
		p.consumed(5, "notification-planner", "32 DAY", 1)
		p.finds("warning dedup-not-purged", "5 or more dedup rows of notification-planner are a day older than its retain, 720h")
		p.exec("DELETE FROM consumed_event")
		p.consumed(2, "old-name", "1 DAY", 1)
		p.finds("note consumer-unknown", `of "old-name"`)
	})
}

func TestParked(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.park("sales-report", "order.accepted", 2)
		p.finds("note consumer-parked", "sales-report has parked 1 event")
	})
}

func (p *patient) park(consumer, event string, version int) {
	p.Helper()
	p.exec(fmt.Sprintf(`INSERT INTO parked_event (consumer_name, event_id, event_type, kind, reason, attempts, attributes, headers, body, parked_at)
		VALUES ('%s', UUID(), '%s', 'attempts', 'why', 3, '{"schemaversion": "%d"}', '{}', 'x', UTC_TIMESTAMP(6))`, consumer, event, version))
}

func TestRowsThatCantBeRead(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.aliveRelays(1)
		p.fill(3, 0, "'1970-01-01'")
		p.exec("UPDATE outbox_event SET schema_version = 9")
		p.finds("warning rows-waiting", `version 9 of "order.accepted"`)
		p.exec("DELETE FROM outbox_event")
		p.park("gone", "order.accepted", 2)
		p.finds("warning events-parked", `"gone"`)
	})
}

func TestPayloads(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.aliveRelays(1)
		p.fill(1, 2, "UTC_TIMESTAMP(6)")
		p.exec(`UPDATE outbox_event SET payload = CONCAT('{"a": "', REPEAT('x', 900000), '"}')`)
		d := p.finds("note payload-near-limit", "of 90")
		if strings.Contains(d.Message+d.Hint, "xxx") {
			p.Error("it shows a payload")
		}
	})
}

func TestRelays(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.fill(1, 0, "'1970-01-01'")
		p.finds("warning no-relay", "1 event is due")
		p.aliveRelays(64)
		p.well()
		p.exec("INSERT INTO outbox_relay SELECT 'relay-64', host, pid, started_at, alive_until FROM outbox_relay LIMIT 1")
		p.finds("warning relays-idle", "65 relays are alive")
		p.exec("DELETE FROM outbox_relay WHERE owner = 'relay-64'", "INSERT INTO outbox_pause VALUES ('claims', 'me@here', 'why', UTC_TIMESTAMP(6) - INTERVAL 90 SECOND)")
		p.finds("warning claims-paused", "by me@here, for 1m3")
	})
	each(t, "rows", func(p *patient) {
		p.aliveRelays(70)
		p.well()
	})
}

func TestAudit(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		for range 10 {
			p.exec(`INSERT INTO outbox_audit (happened_at, operation, operator, detail)
			WITH RECURSIVE digits (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 9)
			SELECT UTC_TIMESTAMP(6), 'a', 'b', 'c' FROM digits a, digits b, digits c, digits d`)
		}
		p.finds("note audit-large", "100000 rows or more")
	})
}

// Tables of a consumer that are elsewhere are looked at there.
func TestConsumerElsewhere(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		other := &patient{Database: p.Database, T: p.T}
		p.exec("CREATE DATABASE "+p.Name+"_c CHARACTER SET utf8mb4", "DROP TABLE IF EXISTS nothing")
		p.Cleanup(func() { p.exec("DROP DATABASE " + p.Name + "_c") })
		other.Name += "_c"
		cfg := p.Config()
		cfg.DBName = other.Name
		other.DSN = cfg.FormatDSN()
		other.db = other.Open(p.T)
		for _, table := range ofConsumers {
			other.exec(fmt.Sprintf("CREATE TABLE %s LIKE %s.%s", table, p.Name, table))
		}
		p.cfg.Databases.Consumers = map[string]*sql.DB{"sales-report": other.db}
		p.well()
		other.consumed(1, "sales-report", "92 DAY", 1)
		other.park("sales-report", "order.accepted", 2)
		p.finds("warning dedup-not-purged", "the database of sales-report: 1 or more", "note consumer-parked")
		other.exec("DROP TABLE consumer_failure")
		p.finds("error missing-table", "the database of sales-report: consumer_failure", "note consumer-parked", "warning dedup-not-purged")
	})
}
