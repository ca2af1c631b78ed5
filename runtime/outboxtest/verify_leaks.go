package outboxtest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// goroutineLabel marks every goroutine that was started in a verification, directly or not.
const goroutineLabel = "outboxtest.Verify"

// labelled runs fn, whose goroutines goroutinesOf knows by the id.
func labelled(ctx context.Context, id string, fn func()) {
	pprof.Do(ctx, pprof.Labels(goroutineLabel, id), func(context.Context) { fn() })
}

// leakPatience is how long is waited for what takes a moment to end.
const leakPatience = 5 * time.Second

// leaks closes what the verification itself holds, and returns what is left. A transaction
// can't outlive its connection. With a broker of the user's, whose client keeps goroutines of
// its own, goroutines are not counted.
func (v *verification) leaks(ctx context.Context) *history.Leaks {
	v.checkPool("Business, an Effects or a New", v.db)
	l := &history.Leaks{Connections: v.inUse}
	awaitFor(ctx, leakPatience, func() bool { // the server takes a moment
		n, err := v.countThreads(ctx)
		l.Connections = v.inUse + max(0, n-v.threads)
		return err == nil && n <= v.threads
	})
	v.close()
	if v.broker == nil {
		l.NotCounted = []string{"goroutines"}
	} else {
		var stacks []string
		awaitFor(ctx, leakPatience, func() bool {
			l.Goroutines, stacks = goroutinesOf(v.rec.ExperimentID)
			return l.Goroutines == 0
		})
		v.left = append(v.left, stacks...)
	}
	return l
}

// checkPool looks whether a connection of a pool is in use that nobody uses any more: by a
// transaction or rows that were not closed. Only the first pool with such is told.
func (v *verification) checkPool(user string, db *outbox.DB) {
	if v.inUse > 0 {
		return
	}
	n := 0
	awaitFor(context.Background(), time.Second, func() bool { // a rollback at the end of a context takes a moment
		n = db.Stats().InUse
		return n == 0
	})
	if n == 0 {
		return
	}
	during := "the end"
	if len(v.injections) > 0 && db != v.db {
		during = v.injections[len(v.injections)-1].ID
	}
	v.inUse = n
	v.left = append(v.left, fmt.Sprintf("%d connections in use that %s got from its pool, at %s: a transaction was not ended, or rows were not closed", n, user, during))
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

// shownFrames is how many frames of a stack are shown.
const shownFrames = 4

// goroutinesOf counts those with the label of an id, and describes them in a line for each stack.
func goroutinesOf(id string) (n int, stacks []string) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0, nil // a buffer takes everything
	}
	label := fmt.Sprintf("%q:%q", goroutineLabel, id)
	// Each stack is a paragraph: "2 @ 0x…", then "# labels: {…}", then its frames.
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(stack, label) {
			continue
		}
		same := 0
		for line := range strings.Lines(stack) {
			if _, err := fmt.Sscanf(line, "%d @", &same); err == nil {
				break
			}
		}
		n += same
		stacks = append(stacks, fmt.Sprintf("%d goroutines in %s", same, strings.Join(framesOf(stack), ", called by ")))
	}
	return n, stacks
}

// framesOf are the frames of a stack in the user's module or in ours; without any, the function
// that the goroutine was started with.
func framesOf(stack string) (shown []string) {
	modules := []string{"github.com/outboxgen/outboxgen"}
	if info, ok := debug.ReadBuildInfo(); ok {
		modules = append(modules, info.Main.Path)
	}
	last := "an unknown function"
	for line := range strings.Lines(stack) {
		// "#	0x4a3f	example.com/shop.(*Handler).do+0x1f		/src/shop/handler.go:12"
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "#" || !strings.HasPrefix(fields[1], "0x") {
			continue
		}
		function := fields[2]
		if plus := strings.LastIndex(function, "+"); plus > 0 {
			function = function[:plus]
		}
		last = fmt.Sprintf("%s (%s)", function, path.Base(filepath.ToSlash(fields[3])))
		if len(shown) < shownFrames && slices.ContainsFunc(modules, func(m string) bool { return isIn(function, m) }) {
			shown = append(shown, last)
		}
	}
	if shown == nil {
		return []string{last}
	}
	return shown
}

// isIn reports whether a function is of a package of a module, tests in a package of their own
// among them.
func isIn(function, module string) bool {
	rest, ok := strings.CutPrefix(function, module)
	return ok && module != "" && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "_test."))
}
