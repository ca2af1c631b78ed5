package fakemysql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
)

var (
	errDeadlock = &mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}, Message: "Deadlock found when trying to get lock; try restarting transaction"}
	errLockWait = &mysql.MySQLError{Number: 1205, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}, Message: "Lock wait timeout exceeded; try restarting transaction"}
	errReadOnly = &mysql.MySQLError{Number: 1290, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}, Message: "The MySQL server is running with the --super-read-only option so it cannot execute this statement"}
	errLost     = errors.New("the session was ended")
)

// result is what a statement answers.
type result struct {
	names    []string
	rows     [][]value
	affected int64
	lastID   int64
}

// run runs a statement in a transaction. What it changed is undone when it fails.
func (s *Server) run(t *tx, st *statement, args []value) (*result, error) {
	if len(args) != st.params {
		return nil, fmt.Errorf("fakemysql: %d arguments for %d parameters", len(args), st.params)
	}
	e := &env{now: s.Now().UnixMicro(), args: args}
	before := len(t.undo)
	var out *result
	var err error
	switch {
	case st.query != nil:
		out, err = s.selectRows(t, st.query, e)
	case s.readOnly:
		return nil, errReadOnly
	case st.insert != nil:
		out, err = s.insertRows(t, st.insert, e)
	default:
		out, err = s.changeRows(t, st.change, e)
	}
	if err == nil && t.ended {
		err = errLost
	}
	if err != nil && !t.ended {
		t.undoTo(before)
	}
	return out, err
}

// candidates are the rows that a condition can hold for, and whether they are named by
// their key: then places of rows that aren't committed are among them.
func (t *table) candidates(keys []lookup, e *env) (rows []*row, named bool) {
	values := make([][]value, len(t.key))
	for i, c := range t.key {
		n := slices.IndexFunc(keys, func(l lookup) bool { return l.column == c })
		if n < 0 {
			return slices.Clone(t.order), false
		}
		for _, x := range keys[n].values {
			values[i] = append(values[i], x.eval(e))
		}
	}
	wanted := []string{""}
	for i := range values {
		var longer []string
		for _, prefix := range wanted {
			for _, v := range values[i] {
				if t.columns[t.key[i]].moment {
					v = v.asMoment()
				}
				longer = append(longer, prefix+v.keyPart())
			}
		}
		wanted = longer
	}
	slices.Sort(wanted)
	for _, key := range slices.Compact(wanted) {
		if r := t.rows[key]; r != nil {
			rows = append(rows, r)
		}
	}
	return rows, true
}

// matching locks the rows for which a condition holds, and returns them. What it
// locked for nothing it gives back.
func (s *Server) matching(t *tx, rows []*row, named bool, where *expr, e *env, mode lockMode, skip bool, limit int) ([]*row, error) {
	holds := func(r *row) bool {
		values := r.visible(t)
		if values == nil {
			return false
		}
		e.rows = [][]value{values}
		return where == nil || where.eval(e).isTrue()
	}
	var out []*row
	for _, r := range rows {
		if len(out) == limit {
			break
		}
		if !named && !holds(r) {
			continue
		}
		had := r.held(t)
		ok, err := s.lock(t, r, mode, skip)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			continue
		case t.ended:
			return nil, errLost
		case holds(r):
			out = append(out, r)
		case had == unlocked:
			s.unlock(t, r)
		}
	}
	return out, nil
}

const noLimit = -1

func (s *Server) changeRows(t *tx, c *change, e *env) (*result, error) {
	tbl := c.scope.sources[0].table
	candidates, named := tbl.candidates(c.keys, e)
	rows, err := s.matching(t, candidates, named, c.where, e, exclusive, false, noLimit)
	if err != nil {
		return nil, err
	}
	out := &result{}
	for _, r := range rows {
		if c.set == nil {
			t.write(r, nil)
			out.affected++
			continue
		}
		if s.set(t, r, c.set, e) {
			out.affected++
		}
	}
	return out, nil
}

// set changes a row, one column after the other, and reports whether it differs then.
func (s *Server) set(t *tx, r *row, set []assignment, e *env) bool {
	values := slices.Clone(r.visible(t))
	e.rows = [][]value{values}
	for _, a := range set {
		values[a.column] = r.table.store(a.column, a.to.eval(e))
	}
	if slices.Equal(values, r.visible(t)) {
		return false
	}
	t.write(r, values)
	return true
}

// store is a value as a column keeps it.
func (t *table) store(column int, v value) value {
	if t.columns[column].moment {
		return v.asMoment()
	}
	return v
}

func (s *Server) insertRows(t *tx, ins *insertion, e *env) (*result, error) {
	out := &result{}
	for _, given := range ins.rows {
		values, id, err := ins.table.fill(ins.columns, given, e)
		if err != nil {
			return nil, err
		}
		n, err := s.insertRow(t, ins, values, e)
		if err != nil {
			return nil, err
		}
		out.affected += n
		out.lastID = id
	}
	return out, nil
}

func (t *table) fill(columns []int, given []expr, e *env) (values []value, id int64, err error) {
	values = make([]value, len(t.columns))
	for i, c := range t.columns {
		n := slices.Index(columns, i)
		switch {
		case n >= 0:
			values[i] = t.store(i, given[n].eval(e))
		case c.counter:
			t.count++
			id = t.count
			values[i] = intValue(id)
		case c.fallback != nil:
			values[i] = t.store(i, *c.fallback)
		case c.generated == nil:
			return nil, 0, &mysql.MySQLError{Number: 1364, Message: fmt.Sprintf("Field '%s' doesn't have a default value", t.names[i])}
		}
	}
	for i, c := range t.columns {
		if c.generated != nil {
			values[i] = c.generated.eval(&env{rows: [][]value{values}})
		}
	}
	return values, id, nil
}

// insertRow returns 1 for a row, 2 for one that was changed instead, and 0 when it was so before.
func (s *Server) insertRow(t *tx, ins *insertion, values []value, e *env) (int64, error) {
	tbl := ins.table
	key := tbl.keyOf(values)
	want := shared
	if ins.update != nil {
		want = exclusive
	}
	for {
		r := tbl.rows[key]
		if r == nil {
			r = tbl.place(key)
			r.grant(t, exclusive)
			t.write(r, values)
			return 1, nil
		}
		if _, err := s.lock(t, r, want, false); err != nil {
			return 0, err
		}
		if t.ended {
			return 0, errLost
		}
		if tbl.rows[key] != r { // it was removed while this one waited
			continue
		}
		if r.visible(t) == nil {
			if want != exclusive {
				want = exclusive
				continue
			}
			t.write(r, values)
			return 1, nil
		}
		if ins.update == nil {
			return 0, s.duplicate(tbl, values)
		}
		e.next = values
		if s.set(t, r, ins.update, e) {
			return 2, nil
		}
		return 0, nil
	}
}

func (s *Server) duplicate(t *table, values []value) error {
	entry := ""
	for i, c := range t.key {
		if i > 0 {
			entry += "-"
		}
		entry += values[c].words()
	}
	name := t.keyName
	if !s.cfg.MariaDB {
		name = t.name + "." + name
	}
	return &mysql.MySQLError{
		Number: 1062, SQLState: [5]byte{'2', '3', '0', '0', '0'},
		Message: fmt.Sprintf("Duplicate entry '%s' for key '%s'", entry, name),
	}
}

func (s *Server) selectRows(t *tx, q *query, e *env) (*result, error) {
	var found [][][]value // a set of source rows each
	limit := noLimit
	if q.limit != nil {
		limit = int(q.limit.eval(e).i)
	}
	if q.lock != unlocked {
		rows, err := s.lockRows(t, q, e, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			found = append(found, [][]value{r.visible(t)})
		}
	} else {
		var err error
		if found, err = s.join(t, q, e); err != nil {
			return nil, err
		}
		if !q.grouped {
			s.sort(found, q.orderBy, e)
			if limit != noLimit && len(found) > limit {
				found = found[:limit]
			}
		}
	}
	out := &result{names: q.names}
	if q.grouped {
		return out, s.group(out, found, q, e)
	}
	for _, e.rows = range found {
		out.rows = append(out.rows, q.row(e))
	}
	return out, nil
}

func (q *query) row(e *env) []value {
	values := make([]value, len(q.items))
	for i, item := range q.items {
		values[i] = item.eval(e)
	}
	return values
}

// lockRows locks the rows of a locking read, in its order.
func (s *Server) lockRows(t *tx, q *query, e *env, limit int) ([]*row, error) {
	if len(q.scope.sources) != 1 || q.scope.sources[0].table == nil || q.grouped {
		return nil, errors.New("fakemysql: a locking read of more than a table")
	}
	rows, named := q.scope.sources[0].table.candidates(q.keys, e)
	if len(q.orderBy) > 0 && !named {
		rows = slices.DeleteFunc(rows, func(r *row) bool { return r.visible(t) == nil })
		slices.SortStableFunc(rows, func(a, b *row) int {
			return compareRows([][]value{a.visible(t)}, [][]value{b.visible(t)}, q.orderBy, e)
		})
	}
	return s.matching(t, rows, named, q.where, e, q.lock, q.skip, limit)
}

// join makes the sets of rows for which all conditions hold.
func (s *Server) join(t *tx, q *query, e *env) ([][][]value, error) {
	sets := [][][]value{{}}
	for i := range q.scope.sources {
		src := &q.scope.sources[i]
		var rows [][]value
		switch {
		case src.query != nil:
			sub, err := s.selectRows(t, src.query, e)
			if err != nil {
				return nil, err
			}
			rows = sub.rows
		default:
			candidates := src.table.order
			if i == 0 && len(q.keys) > 0 {
				candidates, _ = src.table.candidates(q.keys, e)
			}
			for _, r := range candidates {
				if values := r.visible(t); values != nil {
					rows = append(rows, values)
				}
			}
		}
		var longer [][][]value
		for _, set := range sets {
			matched := false
			for _, values := range rows {
				next := append(slices.Clip(set), values)
				e.rows = next
				if src.on != nil && !src.on.eval(e).isTrue() {
					continue
				}
				matched = true
				longer = append(longer, next)
			}
			if !matched && src.left {
				longer = append(longer, append(slices.Clip(set), nil))
			}
		}
		sets = longer
	}
	if q.where == nil {
		return sets, nil
	}
	return slices.DeleteFunc(sets, func(set [][]value) bool {
		e.rows = set
		return !q.where.eval(e).isTrue()
	}), nil
}

func (s *Server) sort(sets [][][]value, by []expr, e *env) {
	if len(by) > 0 {
		slices.SortStableFunc(sets, func(a, b [][]value) int { return compareRows(a, b, by, e) })
	}
}

func compareRows(a, b [][]value, by []expr, e *env) int {
	for _, x := range by {
		e.rows = a
		left := x.eval(e)
		e.rows = b
		if c, ok := compare(left, x.eval(e)); ok && c != 0 {
			return c
		}
	}
	return 0
}

// group evaluates aggregate functions.
func (s *Server) group(out *result, found [][][]value, q *query, e *env) error {
	if len(q.groupBy) == 0 {
		e.group, e.rows = found, nil
		if len(found) > 0 {
			e.rows = found[0]
		} else {
			e.rows = make([][]value, len(q.scope.sources))
		}
		out.rows = append(out.rows, q.row(e))
		return nil
	}
	s.sort(found, q.groupBy, e)
	for len(found) > 0 {
		n := 1
		for n < len(found) && compareRows(found[0], found[n], q.groupBy, e) == 0 {
			n++
		}
		e.group, e.rows = found[:n], found[0]
		out.rows = append(out.rows, q.row(e))
		found = found[n:]
	}
	return nil
}

// Record is a row, by its columns' names; nil for none. Times are microseconds since 1970.
type Record struct {
	table  *table
	values []value
}

func (t *table) record(values []value) *Record {
	if values == nil {
		return nil
	}
	return &Record{t, values}
}

// Int returns a number, or a time.
func (r *Record) Int(column string) int64 { return r.values[r.table.index(column)].i }

// Text returns a text.
func (r *Record) Text(column string) string { return r.values[r.table.index(column)].s }
