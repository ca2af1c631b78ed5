package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lint"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/waiting"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// purgeSlack is how late a purge may be.
	purgeSlack = 24 * time.Hour

	// mostOldest is how many of the oldest rows are looked at.
	mostOldest = 1000

	// mostWaiting is how many rows of each kind are looked at for what can't be read.
	mostWaiting = 10_000

	// bigAudit are so many rows of the audit that somebody may want to delete some.
	bigAudit = 100_000
)

// published looks whether events are purged.
func (l *look) published(ctx context.Context) error {
	keep := l.cfg.Model.Outbox.KeepPublished
	if keep == 0 {
		return nil // they are deleted when they are marked
	}
	lanes := ""
	if l.lanes() {
		all := make([]string, spec.LaneCount)
		for i := range all {
			all[i] = strconv.Itoa(i)
		}
		lanes = " AND lane IN (" + strings.Join(all, ", ") + ")"
	}
	us := (keep + purgeSlack).Microseconds()
	n, err := l.count(ctx, fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT published_at FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim})
		WHERE status = 2%s AND available_at < UTC_TIMESTAMP(6) - INTERVAL %d MICROSECOND LIMIT %d) t
		WHERE published_at < UTC_TIMESTAMP(6) - INTERVAL %d MICROSECOND`, lanes, us, mostOldest, us))
	if err == nil && n > 0 {
		l.warn("events-not-purged", fmt.Sprintf("%s or more published events are a day older than keep_published, %s: nothing seems to purge them", atMost(n, mostOldest), lint.Hours(keep)),
			"run the generated NewPurger beside a relay, or as a job")
	}
	return err
}

// atMost is a count that went no further than most.
func atMost(n, most int64) string {
	if n >= most {
		return fmt.Sprintf("%d", most)
	}
	return fmt.Sprintf("%d", n)
}

// dedup looks whether dedup rows are purged.
func (l *look) dedup(ctx context.Context) error {
	rows, err := l.db.QueryContext(ctx, l.query(fmt.Sprintf(`SELECT consumer_name, outcome,
		CAST(COALESCE(TIMESTAMPDIFF(MICROSECOND, consumed_at, UTC_TIMESTAMP(6)), 0) AS SIGNED) FROM {consumed_event} ORDER BY id LIMIT %d`, mostOldest)))
	if err != nil {
		return err
	}
	defer rows.Close()
	old, unknown := map[string]int64{}, map[string]int64{}
	for rows.Next() {
		var name string
		var outcome int
		var us int64
		if err := rows.Scan(&name, &outcome, &us); err != nil {
			return err
		}
		c := l.consumer(name)
		switch {
		case c == nil:
			unknown[name]++
		case outcome == int(outbox.Parked): // it stays until a redrive
		case time.Duration(us)*time.Microsecond > c.Retain+purgeSlack:
			old[name]++
		}
	}
	for _, c := range l.cfg.Model.Consumers {
		if n := old[c.Name.Text]; n > 0 {
			l.warn("dedup-not-purged", fmt.Sprintf("%d or more dedup rows of %s are a day older than its retain, %s: nothing seems to purge them", n, c.Name.Text, lint.Hours(c.Retain)),
				"run the generated NewDedupPurger beside a consumer, or as a job")
		}
	}
	for name, n := range unknown {
		l.note("consumer-unknown", fmt.Sprintf("%d or more dedup rows are of %q, which is no consumer of events.yaml: nothing purges them", n, name),
			"delete them when no message for it can come any more, or give the consumer its name back")
	}
	return rows.Err()
}

func (l *look) consumer(name string) *spec.Consumer {
	for _, c := range l.cfg.Model.Consumers {
		if c.Name.Text == name {
			return c
		}
	}
	return nil
}

// payloads looks how long the newest ones are, and at none of what is in them.
func (l *look) payloads(ctx context.Context) error {
	longest, err := l.count(ctx, fmt.Sprintf("SELECT COALESCE(MAX(n), 0) FROM (SELECT LENGTH(payload) AS n FROM {outbox_event} ORDER BY event_id DESC LIMIT %d) t", mostOldest))
	if err == nil && longest > outbox.MaxPayloadBytes*8/10 {
		l.note("payload-near-limit", fmt.Sprintf("a payload of %d bytes is among the newest %d events: writers refuse one of more than %d, and NATS, unless told otherwise, messages of more than a mebibyte", longest, mostOldest, outbox.MaxPayloadBytes),
			"keep what is large elsewhere, and put a reference into the event")
	}
	return err
}

// dead counts what was given up.
func (l *look) dead(ctx context.Context) error {
	n, err := l.count(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 3 LIMIT %d) t", mostWaiting))
	if err == nil && n > 0 {
		l.note("events-dead", fmt.Sprintf("%s are dead: no relay publishes them", these(n, "event")), "find out why, in outbox_failure, and redrive or discard them")
	}
	return err
}

func (l *look) parked(ctx context.Context) error {
	for _, c := range l.cfg.Model.Consumers {
		if !l.consumers[c.Name.Text] {
			continue
		}
		n, err := l.count(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM {parked_event} WHERE consumer_name = ? LIMIT %d) t", mostWaiting), c.Name.Text)
		if err != nil {
			return err
		}
		if n > 0 {
			l.note("consumer-parked", fmt.Sprintf("%s has parked %s", c.Name.Text, these(n, "event")), "find out why, in parked_event, and redrive or discard them")
		}
	}
	return nil
}

// these is a count with its noun.
func these(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case n >= mostWaiting:
		return fmt.Sprintf("%d or more %ss", n, noun)
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}

func (l *look) audit(ctx context.Context) error {
	n, err := l.count(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM {outbox_audit} LIMIT %d) t", bigAudit))
	if err == nil && n == bigAudit {
		l.note("audit-large", fmt.Sprintf("the audit has %d rows or more, and nothing deletes them by itself", n), "delete what is older than you must keep, in batches by id")
	}
	return err
}

// waiting looks for rows that events.yaml can't read.
func (l *look) waiting(ctx context.Context) error {
	list, more, err := waiting.CheckSome(ctx, l.db, l.cfg.Model, mostWaiting)
	if w := (*waiting.Error)(nil); errors.As(err, &w) {
		l.miss("rows that wait", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		d.Severity = diag.SeverityWarning
		l.report.Findings.Add(d)
	}
	if more {
		l.miss("some of the rows that wait", fmt.Sprintf("the first %d of a kind were", mostWaiting))
	}
	return nil
}
