package schemadiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

// The columns that only one of the orderings has.
var (
	laneColumns = []string{"lane", "aggregate_hash", "next_attempt_at"}
	rowColumns  = []string{"lease_token", "lease_owner", "lease_until"}
)

// ordering finds out whether the database has the tables of the other ordering. Then
// it returns what to say before the first statement, and the statement that lets the
// events which wait keep what they wait for.
func (d *differ) ordering() (before []string, data []Step, err error) {
	want := eventTable(&d.layouts.Want)
	have := d.live.Schema.Table(want.Name)
	if have == nil {
		return nil, nil, nil
	}
	wantLanes := hasAny(want, laneColumns)
	lanes, err := isLanes(want, have, wantLanes)
	if err != nil || lanes == wantLanes {
		return nil, nil, err
	}
	names := map[bool]string{true: "aggregate", false: "none"}
	d.findings.Add(change{
		rule: "different-ordering",
		what: fmt.Sprintf("the tables are those of `ordering: %s`, not of `ordering: %s`", names[lanes], names[!lanes]),
		hint: "stop all relays before the statements run, and start those of the new build after; writers and consumers may go on",
	}.finding(want.Name))
	before = []string{
		fmt.Sprintf("From `ordering: %s` to `ordering: %s`. Stop all relays before, and start those of the", names[lanes], names[!lanes]),
		"new build after: a relay fails on the tables of the other ordering. Writers and consumers may go on.",
		"",
	}
	if need := neededToConvert(lanes); slices.ContainsFunc(need, func(c string) bool { return have.Column(c) == nil }) {
		return nil, nil, refuse("repair the tables with the ordering that they have first, and change it then",
			"%s lacks one of %s, by which the events that wait keep their places", want.Name, strings.Join(need, ", "))
	}
	return before, []Step{convert(want.Name, lanes)}, nil
}

func neededToConvert(lanes bool) []string {
	if lanes {
		return []string{"status", "available_at", "next_attempt_at"}
	}
	return []string{"status", "available_at", "attempts", "lease_token", "created_at"}
}

// convert keeps what the events that wait are waiting for. The assignments are right
// from left to right as well as at once, as MariaDB's SIMULTANEOUS_ASSIGNMENT has them.
func convert(table string, lanes bool) Step {
	if lanes {
		return Step{
			Comments: []string{"An event that failed goes on waiting: with `ordering: none` available_at says until when."},
			SQL:      "UPDATE " + table + " SET available_at = next_attempt_at\nWHERE status = 0 AND next_attempt_at > available_at",
		}
	}
	return Step{
		Comments: []string{
			"A claim or a failure has moved available_at. It becomes the event's place in the order",
			"again, the time at which it was written, and next_attempt_at says what it waits for.",
		},
		SQL: "UPDATE " + table + " SET next_attempt_at = available_at, available_at = created_at\n" +
			"WHERE status = 0 AND (attempts > 0 OR lease_token <> 0)",
	}
}

// isLanes tells the layout by the columns that only one ordering has. Where those of a
// former one were left, the claim's index tells; where there are none, nothing does,
// and the table is repaired as the wanted one.
func isLanes(want, have *ddl.Table, wantLanes bool) (bool, error) {
	lanes, rows := hasAny(have, laneColumns), hasAny(have, rowColumns)
	switch key := have.Key(want.Keys[0].Name); {
	case !lanes && !rows:
		return wantLanes, nil
	case lanes != rows:
		return lanes, nil
	case key != nil:
		return slices.Contains(key.Columns, laneColumns[0]), nil
	}
	return false, refuse("create the index of the ordering that the relays have run with, then try again",
		"%s has no index %s, and its columns don't tell which ordering it is for", have.Name, want.Keys[0].Name)
}

func hasAny(t *ddl.Table, columns []string) bool {
	return slices.ContainsFunc(columns, func(column string) bool { return t.Column(column) != nil })
}

// eventTable is the one that the orderings differ in.
func eventTable(s *ddl.Schema) *ddl.Table {
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Column("payload") != nil {
			return t
		}
	}
	panic("schemadiff: no table of events in our own tables")
}
