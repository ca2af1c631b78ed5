package fakemysql

import (
	"slices"
	"time"
)

type lockMode int

const (
	unlocked lockMode = iota
	shared
	exclusive
)

// row is a row, or the place of one that was inserted and not committed.
type row struct {
	table     *table
	key       string
	committed []value // nil: there is none
	pending   []value // what its writer made of it, when dirty
	dirty     bool

	holders []holder
	queue   []*waiter
}

type holder struct {
	tx   *tx
	mode lockMode
}

type waiter struct {
	tx   *tx
	row  *row
	mode lockMode
	done chan error // has room for one
}

// tx is a transaction on the server, of one statement when the session has begun none.
type tx struct {
	session *session
	locks   []*row
	undo    []former
	waits   *waiter
	ended   bool
}

// former is how a row was before a change.
type former struct {
	row     *row
	pending []value
	dirty   bool
}

func (r *row) held(t *tx) lockMode {
	for _, h := range r.holders {
		if h.tx == t {
			return h.mode
		}
	}
	return unlocked
}

// blockers are the transactions that t would wait for.
func (r *row) blockers(t *tx, mode lockMode, queue []*waiter) []*tx {
	var out []*tx
	for _, h := range r.holders {
		if h.tx != t && (mode == exclusive || h.mode == exclusive) {
			out = append(out, h.tx)
		}
	}
	if r.held(t) == unlocked { // an upgrade passes the queue by
		for _, w := range queue {
			if w.tx != t && (mode == exclusive || w.mode == exclusive) {
				out = append(out, w.tx)
			}
		}
	}
	return out
}

func (r *row) grant(t *tx, mode lockMode) {
	for i := range r.holders {
		if r.holders[i].tx == t {
			r.holders[i].mode = max(r.holders[i].mode, mode)
			return
		}
	}
	r.holders = append(r.holders, holder{t, mode})
	t.locks = append(t.locks, r)
}

// lock locks a row. With skip it reports false instead of waiting. It gives the server's mutex
// back while it waits.
func (s *Server) lock(t *tx, r *row, mode lockMode, skip bool) (bool, error) {
	if r.held(t) >= mode {
		return true, nil
	}
	if len(r.blockers(t, mode, r.queue)) == 0 {
		r.grant(t, mode)
		return true, nil
	}
	if skip {
		return false, nil
	}
	w := &waiter{tx: t, row: r, mode: mode, done: make(chan error, 1)}
	r.queue = append(r.queue, w)
	t.waits = w
	if victim := s.deadlock(t); victim != nil {
		s.Deadlocks++
		s.stopWaiting(victim.waits, errDeadlock)
	}
	s.LockWaits++
	s.mu.Unlock()
	timer := time.NewTimer(s.cfg.LockWait)
	var err error
	select {
	case err = <-w.done:
	case <-timer.C:
		s.mu.Lock()
		select {
		case err = <-w.done: // at the same moment
		default:
			s.stopWaiting(w, errLockWait)
			err = <-w.done
		}
		s.mu.Unlock()
	}
	timer.Stop()
	s.mu.Lock()
	return err == nil, err
}

// stopWaiting ends a wait.
func (s *Server) stopWaiting(w *waiter, err error) {
	w.tx.waits = nil
	w.row.queue = slices.DeleteFunc(w.row.queue, func(o *waiter) bool { return o == w })
	w.done <- err
	s.wake(w.row)
}

// wake grants what can be granted.
func (s *Server) wake(r *row) {
	for i := 0; i < len(r.queue); {
		w := r.queue[i]
		if len(r.blockers(w.tx, w.mode, r.queue[:i])) > 0 {
			i++
			continue
		}
		r.grant(w.tx, w.mode)
		r.queue = slices.Delete(r.queue, i, i+1)
		w.tx.waits = nil
		w.done <- nil
	}
}

// deadlock returns the transaction to be rolled back when t waits in a circle: the one of
// those in it that has changed the fewest rows, t among equals.
func (s *Server) deadlock(t *tx) *tx {
	var path []*tx
	seen := map[*tx]bool{}
	var find func(*tx) bool
	find = func(at *tx) bool {
		if at.waits == nil {
			return false
		}
		i := slices.Index(at.waits.row.queue, at.waits)
		for _, b := range at.waits.row.blockers(at, at.waits.mode, at.waits.row.queue[:i]) {
			if b == t {
				return true
			}
			if seen[b] {
				continue
			}
			seen[b] = true
			path = append(path, b)
			if find(b) {
				return true
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if !find(t) {
		return nil
	}
	victim := t
	for _, p := range path {
		if len(p.undo) < len(victim.undo) {
			victim = p
		}
	}
	return victim
}

// unlock gives back a lock on a row that turned out not to be wanted.
func (s *Server) unlock(t *tx, r *row) {
	r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.tx == t })
	t.locks = slices.DeleteFunc(t.locks, func(o *row) bool { return o == r })
	s.wake(r)
	r.forget()
}

// visible is the row as a transaction sees it; nil when there is none.
func (r *row) visible(t *tx) []value {
	if r.dirty && r.held(t) == exclusive {
		return r.pending
	}
	return r.committed
}

func (t *tx) write(r *row, values []value) {
	t.undo = append(t.undo, former{r, r.pending, r.dirty})
	r.pending, r.dirty = values, true
}

// undoTo undoes the changes after the first n.
func (t *tx) undoTo(n int) {
	for len(t.undo) > n {
		last := t.undo[len(t.undo)-1]
		last.row.pending, last.row.dirty = last.pending, last.dirty
		t.undo = t.undo[:len(t.undo)-1]
	}
}

// end commits or rolls back, and gives all locks back.
func (s *Server) end(t *tx, commit bool) {
	if t.ended {
		return
	}
	t.ended = true
	if t.waits != nil {
		s.stopWaiting(t.waits, errLost)
	}
	if commit {
		s.publish(t)
	} else {
		t.undoTo(0)
	}
	locks := t.locks
	t.locks = nil
	for _, r := range locks {
		r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.tx == t })
	}
	for _, r := range locks {
		s.wake(r)
		r.forget()
	}
}

// publish makes a transaction's changes everybody's.
func (s *Server) publish(t *tx) {
	for _, c := range t.undo {
		r := c.row
		if !r.dirty {
			continue
		}
		before := r.committed
		r.committed, r.pending, r.dirty = r.pending, nil, false
		if s.cfg.OnCommit != nil {
			s.cfg.OnCommit(Change{Client: t.session.client.Name, Table: r.table.name, Before: r.table.record(before), After: r.table.record(r.committed), Note: t.session.note, server: s})
		}
	}
}

// forget removes a place without a row that nobody is interested in.
func (r *row) forget() {
	if r.committed != nil || len(r.holders) > 0 || len(r.queue) > 0 {
		return
	}
	if r.table.rows[r.key] != r {
		return
	}
	delete(r.table.rows, r.key)
	i, _ := r.table.find(r.key)
	r.table.order = slices.Delete(r.table.order, i, i+1)
}

func (t *table) find(key string) (int, bool) {
	return slices.BinarySearchFunc(t.order, key, func(r *row, key string) int {
		switch {
		case r.key < key:
			return -1
		case r.key > key:
			return 1
		}
		return 0
	})
}

// place makes a place for a row.
func (t *table) place(key string) *row {
	r := &row{table: t, key: key}
	t.rows[key] = r
	i, _ := t.find(key)
	t.order = slices.Insert(t.order, i, r)
	return r
}
