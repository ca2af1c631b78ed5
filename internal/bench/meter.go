package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// meter counts statements and how long they take, by name, as a client of the
// server sees it: a query is over when its last row is read.
type meter struct {
	mu    sync.Mutex
	spent map[string]*spent
}

type spent struct {
	calls int
	took  time.Duration
}

func newMeter() *meter { return &meter{spent: map[string]*spent{}} }

func (m *meter) add(name string, began time.Time) {
	took := time.Since(began)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spent[name]
	if s == nil {
		s = &spent{}
		m.spent[name] = s
	}
	s.calls++
	s.took += took
}

// roundTrips counts them, if the DSN has interpolateParams: a BEGIN takes two, for
// the isolation level has a statement of its own.
func (m *meter) roundTrips() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.spent {
		n += s.calls
		if name == begin {
			n += s.calls
		}
	}
	return n
}

const begin = "BEGIN"

// print tells of each statement, the most costly first.
func (m *meter) print(out io.Writer, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(out, "  statements of %s:\n", what)
	for _, name := range slices.SortedFunc(maps.Keys(m.spent), func(a, b string) int {
		return cmp.Compare(m.spent[b].took, m.spent[a].took)
	}) {
		s := m.spent[name]
		fmt.Fprintf(out, "  %8.1f ms %6d calls %8.2f ms each  %s\n",
			1e3*s.took.Seconds(), s.calls, 1e3*s.took.Seconds()/float64(s.calls), name)
	}
}

// statementName is what sqlc wrote in front of the statement, or its first words.
func statementName(query string) string {
	if rest, ok := strings.CutPrefix(query, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return query[:min(len(query), 40)]
}

// meteredConn is what database/sql uses of a connection.
type meteredConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

func (m *meter) watch(conn driver.Conn) (driver.Conn, error) {
	inner, ok := conn.(meteredConn)
	if !ok {
		return nil, errors.New("the connection lacks an interface that the meter needs")
	}
	return &watchedConn{meteredConn: inner, meter: m}, nil
}

type watchedConn struct {
	meteredConn
	meter *meter
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.meter.add(statementName(query), time.Now())
	return c.meteredConn.ExecContext(ctx, query, args)
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	began := time.Now()
	rows, err := c.meteredConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &watchedRows{Rows: rows, closed: func() { c.meter.add(statementName(query), began) }}, nil
}

func (c *watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	defer c.meter.add(begin, time.Now())
	tx, err := c.meteredConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watchedTx{Tx: tx, meter: c.meter}, nil
}

type watchedRows struct {
	driver.Rows
	closed func()
}

func (r *watchedRows) Close() error {
	defer r.closed()
	return r.Rows.Close()
}

type watchedTx struct {
	driver.Tx
	meter *meter
}

func (t watchedTx) Commit() error {
	defer t.meter.add("COMMIT", time.Now())
	return t.Tx.Commit()
}
