package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// fewRows are so few that any plan will do.
const fewRows = 1000

// plans asks the server how it would run the statements of a claim.
func (l *look) plans(ctx context.Context) error {
	all, problems := sqlgen.Statements(l.cfg.Model)
	if len(problems) > 0 {
		return problems
	}
	for _, s := range sqlgen.StatementsOf(all, "SelectDueLanes", "SelectLaneEvents", "SelectDueEvents") {
		p, err := l.explain(ctx, s.With(map[string]string{"lanes": lanesOfAClaim()}))
		if err != nil {
			return err
		}
		l.judge(s.Name, p)
	}
	return l.statistics(ctx)
}

// lanesOfAClaim are as many lanes as a claim reads at once.
func lanesOfAClaim() string {
	lanes := make([]string, 16)
	for i := range lanes {
		lanes[i] = strconv.Itoa(i)
	}
	return strings.Join(lanes, ", ")
}

// plan is how outbox_event is read.
type plan struct {
	key, extra string
	rows       int64
	found      bool // outbox_event is in the EXPLAIN: where a server sees that there is nothing, it is not
}

func (l *look) explain(ctx context.Context, statement string) (plan, error) {
	form := "EXPLAIN "
	if !l.server.MariaDB {
		form = "EXPLAIN FORMAT=TRADITIONAL " // its default may be a tree
	}
	rows, err := l.db.QueryContext(ctx, form+statement)
	if err != nil {
		return plan{}, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return plan{}, err
	}
	values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	var p plan
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return plan{}, err
		}
		row := map[string]string{}
		for i, c := range columns {
			row[strings.ToLower(c)] = values[i].String
		}
		if row["table"] == l.table("outbox_event") {
			n, _ := strconv.ParseInt(row["rows"], 10, 64)
			p = plan{row["key"], row["extra"], n, true}
		}
	}
	return p, rows.Err()
}

func (l *look) judge(name string, p plan) {
	key := l.query("{ix_:outbox_event_claim}")
	const analyze = "ANALYZE TABLE %s, and look again; outboxgen schema diff tells whether the index is as it should be"
	hint := fmt.Sprintf(analyze, l.table("outbox_event"))
	switch {
	case !p.found || p.rows < fewRows && p.key == key:
	case p.key != key:
		l.warn("claim-plan", fmt.Sprintf("%s reads outbox_event by %s, not by %s: about %d rows each time", name, orNone(p.key), key, p.rows), hint)
	case strings.Contains(p.extra, "filesort") || strings.Contains(p.extra, "temporary"):
		l.warn("claim-plan", fmt.Sprintf("%s sorts what it reads, about %d rows each time (%s)", name, p.rows, p.extra), hint)
	case name == "SelectDueLanes" && !strings.Contains(p.extra, "Using index for group-by"):
		l.warn("claim-plan", fmt.Sprintf("%s reads all due entries of the index, about %d, in place of one a lane: it is no loose index scan (%s)", name, p.rows, orNone(p.extra)), hint)
	}
}

func orNone(text string) string {
	if text == "" {
		return "no index"
	}
	return text
}

const (
	countMost  = 100_000
	staleTimes = 10
)

// statistics looks whether those of outbox_event are of another time.
func (l *look) statistics(ctx context.Context) error {
	have, err := l.count(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM {outbox_event} LIMIT %d) t", countMost))
	if err != nil || have < fewRows*staleTimes {
		return err
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !l.server.MariaDB { // it keeps them for a day otherwise
		if _, err := conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
			return err
		}
	}
	var known sql.NullInt64
	var options sql.NullString
	err = conn.QueryRowContext(ctx, `SELECT MAX(s.CARDINALITY), MAX(t.CREATE_OPTIONS) FROM information_schema.STATISTICS s
		JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = s.TABLE_SCHEMA AND t.TABLE_NAME = s.TABLE_NAME
		WHERE s.TABLE_SCHEMA = DATABASE() AND s.TABLE_NAME = ? AND s.INDEX_NAME = 'PRIMARY'`, l.table("outbox_event")).Scan(&known, &options)
	if err != nil || !known.Valid || known.Int64 >= have/staleTimes {
		return err
	}
	more := ""
	if have == countMost {
		more = " or more"
	}
	what := fmt.Sprintf("the statistics of %s are of a time when it had about %d rows; it has %d%s", l.table("outbox_event"), known.Int64, have, more)
	analyze := "ANALYZE TABLE " + l.table("outbox_event")
	if asked := strings.ToLower(options.String); l.on("innodb_stats_auto_recalc") && !strings.Contains(asked, "stats_auto_recalc=0") {
		l.note("statistics-stale", what+": InnoDB renews them by itself, mostly within seconds", "look again, or "+analyze)
		return nil
	}
	l.warn("statistics-stale", what+", and InnoDB is told not to renew them: the optimiser may choose a slow plan", analyze+", and switch STATS_AUTO_RECALC on")
	return nil
}
