package schemadiff_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

var mysql84 = schemadiff.Server{Version: [3]int{8, 4, 0}, Strict: true}

// liveAs is a database that has just what a schema says, but for a change.
func liveAs(t testing.TB, schema ddl.Schema, server schemadiff.Server, change func(*ddl.Schema)) schemadiff.Live {
	t.Helper()
	copied, err := ddl.Parse(schema.Statements())
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&copied)
	}
	return schemadiff.Live{Schema: copied, Server: server}
}

func TestRefused(t *testing.T) {
	lanes, rows := layouts(t, "ordering: aggregate"), layouts(t, "ordering: none")
	without := func(table *ddl.Table, columns ...string) {
		for _, name := range columns {
			for i := range table.Columns {
				if table.Columns[i].Name == name {
					table.Columns = append(table.Columns[:i], table.Columns[i+1:]...)
					break
				}
			}
		}
	}
	for name, c := range map[string]struct {
		want   sqlgen.Layouts
		from   ddl.Schema
		change func(*ddl.Schema)
		reason string
	}{
		"a view where a table belongs": {lanes, lanes.Want, func(s *ddl.Schema) {
			s.Tables = s.Tables[1:]
			s.Views = append(s.Views, ddl.View{Name: "outbox_event"})
		}, "a view named outbox_event"},
		"a table where the view belongs": {lanes, lanes.Want, func(s *ddl.Schema) {
			s.Views = nil
			s.Tables = append(s.Tables, ddl.Table{Name: "outbox_event_state"})
		}, "a table named outbox_event_state"},
		"no telling which ordering": {lanes, lanes.Want, func(s *ddl.Schema) {
			e := s.Table("outbox_event")
			e.Keys = nil
			e.Columns = append(e.Columns, ddl.Column{Name: "lease_token"})
		}, "don't tell which ordering"},
		"to lanes, without what tells the claimed": {lanes, rows.Want, func(s *ddl.Schema) {
			without(s.Table("outbox_event"), "lease_token")
		}, "outbox_event lacks one of"},
		"to rows, without what a failed event waits for": {rows, lanes.Want, func(s *ddl.Schema) {
			without(s.Table("outbox_event"), "next_attempt_at")
		}, "outbox_event lacks one of"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := schemadiff.Diff(c.want, liveAs(t, c.from, mysql84, c.change), schemadiff.Options{})
			var refused *schemadiff.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.reason) || refused.Hint == "" {
				t.Errorf("%v\n%s", err, plan.SQL())
			}
		})
	}
}

// TestServers: what a server can't do is not asked of it.
func TestServers(t *testing.T) {
	want := layouts(t, "ordering: aggregate")
	extra := func(s *ddl.Schema) {
		e := s.Table("outbox_event")
		e.Columns = append(e.Columns, ddl.Column{Name: "note", Type: "int"})
		e.Column("attempts").Type = "int"
	}
	const setMode = "SET SESSION sql_mode"
	for name, c := range map[string]struct {
		server       schemadiff.Server
		with, absent string
	}{
		"MySQL 8.0.28 drops no column instantly": {schemadiff.Server{Version: [3]int{8, 0, 28}, Strict: true}, "DROP COLUMN `note`,\n  ALGORITHM=INPLACE", setMode},
		"MySQL 8.0.29 does":                      {schemadiff.Server{Version: [3]int{8, 0, 29}, Strict: true}, "DROP COLUMN `note`,\n  ALGORITHM=INSTANT", setMode},
		"MariaDB does":                           {schemadiff.Server{MariaDB: true, Version: [3]int{10, 6, 0}, Strict: true}, "DROP COLUMN `note`,\n  ALGORITHM=INSTANT", setMode},
		"a server that isn't strict":             {schemadiff.Server{Version: [3]int{8, 4, 0}}, setMode, "DEFAULT CHARSET"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := schemadiff.Diff(want, liveAs(t, want.Want, c.server, extra), schemadiff.Options{Drop: true})
			if err != nil {
				t.Fatal(err)
			}
			if text := plan.SQL(); !strings.Contains(text, c.with) || strings.Contains(text, c.absent) {
				t.Errorf("not %q, or %q, in\n%s", c.with, c.absent, text)
			}
		})
	}
}

// TestHeldComesFirst: some tools take a comment behind the last statement for an
// empty statement.
func TestHeldComesFirst(t *testing.T) {
	lanes, rows := layouts(t, "ordering: aggregate"), layouts(t, "ordering: none")
	plan, err := schemadiff.Diff(rows, liveAs(t, lanes.Want, mysql84, nil), schemadiff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := plan.SQL()
	if !strings.HasPrefix(text, "-- From `ordering: aggregate` to `ordering: none`. Stop all relays") {
		t.Errorf("the relays come first:\n%s", text)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if last := lines[len(lines)-1]; strings.HasPrefix(last, "--") || !strings.HasSuffix(last, ";") {
		t.Errorf("the last line is %q", last)
	}
}

// TestDropsComeLast: the conversion and the old view read what is dropped.
func TestDropsComeLast(t *testing.T) {
	lanes, rows := layouts(t, "ordering: aggregate"), layouts(t, "ordering: none")
	plan, err := schemadiff.Diff(lanes, liveAs(t, rows.Want, mysql84, nil), schemadiff.Options{Drop: true})
	if err != nil {
		t.Fatal(err)
	}
	text, at := plan.SQL(), 0
	for _, part := range []string{"ADD COLUMN lane", "UPDATE outbox_event SET", "CREATE OR REPLACE VIEW outbox_event_state", "DROP COLUMN `lease_token`"} {
		i := strings.Index(text, part)
		if i < at {
			t.Errorf("%q is missing, or too early, in\n%s", part, text)
		}
		at = i
	}
}
