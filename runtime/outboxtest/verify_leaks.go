package outboxtest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"runtime/pprof"
	"strings"

	"github.com/outboxgen/outboxgen/internal/history"
)

// goroutineLabel marks every goroutine that was started in a verification, directly or not.
const goroutineLabel = "outboxtest.Verify"

// labelled runs fn, whose goroutines countGoroutines knows by the id.
func labelled(ctx context.Context, id string, fn func()) {
	pprof.Do(ctx, pprof.Labels(goroutineLabel, id), func(context.Context) { fn() })
}

// leaks closes what the verification itself holds, and returns what is left. A transaction
// can't outlive its connection. With a broker of the user's, whose client keeps goroutines of
// its own, goroutines are not counted.
func (v *verification) leaks(ctx context.Context) *history.Leaks {
	l := new(history.Leaks)
	v.await(ctx, func() bool { // the server takes a moment
		n, err := v.countThreads(ctx)
		l.Connections = max(0, n-v.threads)
		return err == nil && l.Connections == 0
	})
	v.close()
	if v.broker == nil {
		l.NotCounted = []string{"goroutines"}
	} else {
		v.await(ctx, func() bool {
			l.Goroutines = countGoroutines(v.rec.ExperimentID)
			return l.Goroutines == 0
		})
	}
	return l
}

// countThreads counts the server's threads that work for the database, without those of the
// verification itself.
func (v *verification) countThreads(ctx context.Context) (n int, err error) {
	var name string
	if err := v.db.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&name); err != nil {
		return 0, err
	}
	// The table of that name is on its way out of MySQL.
	rows, err := v.db.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	database := -1
	for i, c := range columns {
		targets[i] = &values[i]
		if strings.EqualFold(c, "db") {
			database = i
		}
	}
	if database < 0 {
		return 0, fmt.Errorf("SHOW PROCESSLIST has no column db: %q", columns)
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return 0, err
		}
		if values[database].String == name {
			n++
		}
	}
	return n - v.db.Stats().OpenConnections, rows.Err()
}

// countGoroutines counts those with the label.
func countGoroutines(id string) (n int) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0 // a buffer takes everything
	}
	label := fmt.Sprintf("%q:%q", goroutineLabel, id)
	// Each stack is a paragraph: "2 @ 0x…", then "# labels: {…}", then its frames.
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(stack, label) {
			continue
		}
		for line := range strings.Lines(stack) {
			var same int
			if _, err := fmt.Sscanf(line, "%d @", &same); err == nil {
				n += same
				break
			}
		}
	}
	return n
}
