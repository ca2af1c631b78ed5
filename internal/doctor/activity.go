package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// transactions looks for those that are open for too long: what they could see can't be
// cleaned up meanwhile, and every claim reads over it.
func (l *look) transactions(ctx context.Context) error {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION time_zone = 'SYSTEM'"); err != nil { // InnoDB's own
		return err
	}
	var n, oldest int64
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT COUNT(*), CAST(COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) AS SIGNED)
		FROM information_schema.innodb_trx WHERE trx_started <= NOW() - INTERVAL %d SECOND AND trx_mysql_thread_id <> CONNECTION_ID()`, int(l.cfg.longTransaction.Seconds()))).Scan(&n, &oldest)
	if err != nil {
		return err
	}
	if n > 0 {
		l.warn("long-transaction", fmt.Sprintf("%s open for too long, the oldest for %s: what others delete and mark stays readable for it, and claims get slower",
			map[bool]string{true: "a transaction is", false: fmt.Sprintf("%d transactions are", n)}[n == 1], time.Duration(oldest)*time.Second),
			"find it in information_schema.innodb_trx, and let it end, or KILL its connection")
	}
	length, err := l.count(ctx, "SELECT COALESCE(MAX(`COUNT`), 0) FROM information_schema.innodb_metrics WHERE NAME = 'trx_rseg_history_len'")
	if err == nil && length > l.cfg.longHistory {
		l.note("history-long", fmt.Sprintf("%d old versions of rows wait for InnoDB's purge", length), "look for transactions that are open for long, here and on replicas")
	}
	return err
}

// relays looks who is there to publish.
func (l *look) relays(ctx context.Context) error {
	alive, err := l.count(ctx, "SELECT COUNT(*) FROM {outbox_relay} WHERE alive_until > UTC_TIMESTAMP(6)")
	if err != nil {
		return err
	}
	waiting, err := l.count(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim}) WHERE status = 0 AND available_at <= UTC_TIMESTAMP(6) LIMIT %d) t", mostWaiting))
	if err != nil {
		return err
	}
	switch {
	case alive == 0 && waiting > 0:
		l.warn("no-relay", fmt.Sprintf("no relay is alive, and %s due", map[bool]string{true: "1 event is", false: these(waiting, "event") + " are"}[waiting == 1]), "start a relay; where its process is still there it is frozen, or can't reach the database")
	case alive == 0:
		l.note("no-relay", "no relay is alive, and nothing is due", "start a relay before events are written")
	case l.lanes() && alive > spec.LaneCount:
		l.warn("relays-idle", fmt.Sprintf("%d relays are alive, and there are %d lanes: %d of them have nothing to do", alive, spec.LaneCount, alive-spec.LaneCount),
			fmt.Sprintf("run %d or fewer: two to four are enough for most", spec.LaneCount))
	}
	var by string
	var us int64
	rows, err := l.db.QueryContext(ctx, l.query("SELECT operator, CAST(COALESCE(TIMESTAMPDIFF(MICROSECOND, paused_at, UTC_TIMESTAMP(6)), 0) AS SIGNED) FROM {outbox_pause} WHERE target = 'claims'"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&by, &us); err != nil {
			return err
		}
		l.warn("claims-paused", fmt.Sprintf("claims are paused by %s, for %s so far: nothing is published", by, (time.Duration(us)*time.Microsecond).Round(time.Second)), "outboxgen resume, when it is over")
	}
	return rows.Err()
}
