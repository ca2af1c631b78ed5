// Package privileges knows which privileges each part of a service needs in the database,
// and no more than that: from the statements that generated code runs.
package privileges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// Server is what is granted for: the two check INSERT … ON DUPLICATE KEY UPDATE differently.
// MariaDB takes UPDATE of all columns that are inserted, MySQL of those that are updated.
type Server int

// The servers.
const (
	Either Server = iota // what is enough on both
	MySQL
	MariaDB
)

// Grant is a privilege on a table or a view.
type Grant struct {
	Table     string
	Privilege string   // "SELECT"
	Columns   []string // in order; none: on the table
}

// Set is what a user needs.
type Set struct {
	Role     Role
	Consumer string  // of Consumer, whose; may be empty: any of them
	Grants   []Grant // by table, then in the order of the privileges

	// Foreign are tables of the user's that our statements read: those of source in events.yaml.
	Foreign []Grant

	// Extras are what some of its commands need beyond that.
	Extras []Extra
}

// Extra is what a command needs that not everybody should have.
type Extra struct {
	What   string
	Grants []Grant
}

type model struct {
	*spec.Model
	schema         ddl.Schema
	all            []sqlgen.Statement
	lanes, deletes bool
}

// Of returns what a role needs; of a consumer, what that one does, or all of them where none
// is named.
func Of(m *spec.Model, server Server, role Role, consumer string) (Set, diag.List) {
	layouts, problems := sqlgen.Tables(m)
	if len(problems) > 0 {
		return Set{}, problems
	}
	all, problems := sqlgen.Statements(m)
	if len(problems) > 0 {
		return Set{}, problems
	}
	in := &model{m, layouts.Want, all, m.Outbox.Ordering == spec.OrderingAggregate, m.Outbox.KeepPublished == 0}
	d := &deriver{schema: in.schema, server: server, needs: map[need]bool{}}
	for _, s := range sqlgen.StatementsOf(all, in.statements(role, in.stale(consumer))...) {
		d.statement(s.SQL)
	}
	set := Set{Role: role, Consumer: consumer}
	switch role {
	case Writer:
		set.Foreign = in.sources()
	case Operator:
		in.looks(d)
		set.Foreign = in.sources()
		for _, text := range in.mends() {
			d.statement(text)
		}
		set.Extras = in.extras(server)
	case Reader:
		in.looks(d)
		set.Foreign = in.sources()
	case Migrator:
		in.migrates(d)
	}
	set.Grants = d.grants(in)
	return set, nil
}

func (m *model) stale(consumer string) bool {
	return slices.ContainsFunc(m.Consumers, func(c *spec.Consumer) bool {
		return c.DropStale && (consumer == "" || c.Name.Text == consumer)
	})
}

// sources are the tables of ReconcileX, of outboxgen reconcile, and of find --request and show. The
// first one's LOCK IN SHARE MODE takes SELECT, and a privilege to change the table, which who
// inserts and updates the rows has anyway.
func (m *model) sources() []Grant {
	var out []Grant
	for _, e := range m.Events {
		if s := e.Source; s != nil {
			columns := []string{s.EventID.Text, s.AggregateID.Text, s.CreatedAt.Text}
			for _, c := range s.Request {
				columns = append(columns, c.Text)
			}
			slices.Sort(columns)
			out = append(out, Grant{s.Table.Text, "SELECT", slices.Compact(columns)})
		}
	}
	return out
}

// mends are the statements of an operator.
func (m *model) mends() []string {
	var out []string
	for _, text := range append(slices.Clone(mends), map[bool]string{true: mendsOfLanes, false: mendsOfRows}[m.lanes]) {
		out = append(out, m.named(text))
	}
	return out
}

// named puts our names into a statement.
func (m *model) named(text string) string {
	return strings.NewReplacer("{", m.Outbox.TablePrefix.Text, "}", "").Replace(text)
}

func (m *model) extras(server Server) []Extra {
	var out []Extra
	for _, e := range extras {
		d := &deriver{schema: m.schema, server: server, needs: map[need]bool{}}
		for _, text := range e.sql {
			d.statement(m.named(text))
		}
		out = append(out, Extra{e.what, d.grants(m)})
	}
	return out
}

// looks adds all columns but those that hold what is in an event.
func (m *model) looks(d *deriver) {
	for _, t := range m.schema.Tables {
		whole := !slices.ContainsFunc(t.Columns, func(c ddl.Column) bool { return hidden[c.Name] })
		if whole {
			d.add(t.Name, "SELECT")
			continue
		}
		for _, c := range t.Columns {
			if !hidden[c.Name] {
				d.add(t.Name, "SELECT", c.Name)
			}
		}
		d.add(t.Name, "REFERENCES") // shows that there are the others, which schema diff wants to know
	}
	for _, v := range m.schema.Views {
		d.add(v.Name, "SELECT")
		d.add(v.Name, "SHOW VIEW")
	}
}

func (m *model) migrates(d *deriver) {
	for _, t := range m.schema.Tables {
		for _, p := range migrations[false] {
			d.add(t.Name, p)
		}
	}
	for _, v := range m.schema.Views {
		for _, p := range migrations[true] {
			d.add(v.Name, p)
		}
	}
}

// order is that in which privileges are printed.
var order = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES", "CREATE VIEW", "SHOW VIEW"}

// grants puts needs together, tables and columns in the order of the schema.
func (d *deriver) grants(m *model) []Grant {
	var out []Grant
	names := make([]string, 0, len(m.schema.Tables)+len(m.schema.Views))
	for _, t := range m.schema.Tables {
		names = append(names, t.Name)
	}
	for _, v := range m.schema.Views {
		names = append(names, v.Name)
	}
	for n := range d.needs {
		if n.column != "" && d.needs[need{n.table, n.privilege, ""}] {
			continue // it has the table
		}
		i := slices.IndexFunc(out, func(g Grant) bool { return g.Table == n.table && g.Privilege == n.privilege })
		if i < 0 {
			i = len(out)
			out = append(out, Grant{Table: n.table, Privilege: n.privilege})
		}
		if n.column != "" {
			out[i].Columns = append(out[i].Columns, n.column)
		}
	}
	for _, g := range out {
		t := m.schema.Table(g.Table)
		slices.SortFunc(g.Columns, func(a, b string) int { return cmp.Compare(position(t, a), position(t, b)) })
	}
	slices.SortFunc(out, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(slices.Index(names, a.Table), slices.Index(names, b.Table)),
			cmp.Compare(slices.Index(order, a.Privilege), slices.Index(order, b.Privilege)))
	})
	return out
}

func position(t *ddl.Table, column string) int {
	return slices.IndexFunc(t.Columns, func(c ddl.Column) bool { return c.Name == column })
}

// String is the privilege as GRANT has it: "UPDATE (`status`, `attempts`)".
func (g Grant) String() string {
	if len(g.Columns) == 0 {
		return g.Privilege
	}
	return fmt.Sprintf("%s (`%s`)", g.Privilege, strings.Join(g.Columns, "`, `"))
}
