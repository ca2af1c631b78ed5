package schemadiff

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// Options are the user's choices.
type Options struct {
	Drop bool // what the database has too much is dropped, not only named
}

// Names are the tables and views that Diff wants to know of.
func Names(layouts sqlgen.Layouts) []string {
	var names []string
	for _, s := range []ddl.Schema{layouts.Want, layouts.Other} {
		for _, t := range s.Tables {
			names = append(names, t.Name)
		}
		for _, v := range s.Views {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Diff makes the plan from live to what the layouts want. The error is a
// *RefusedError. What the database has too much is held back: a column or a table may
// be data, an index somebody's wish.
func Diff(layouts sqlgen.Layouts, live Live, options Options) (Plan, error) {
	d := differ{layouts: layouts, live: live, options: options}
	if err := d.checkKinds(); err != nil {
		return Plan{}, err
	}
	before, data, err := d.ordering()
	if err != nil {
		return Plan{}, err
	}
	for i := range layouts.Want.Tables {
		d.table(&layouts.Want.Tables[i])
	}
	d.views()
	d.extraTables()

	var plan Plan
	plan.Findings = d.findings
	plan.Steps = slices.Concat(d.held, d.strict(), d.alters, data, d.viewSteps, d.drops)
	if len(before) > 0 && len(plan.Steps) > 0 {
		plan.Steps[0].Comments = append(before, plan.Steps[0].Comments...)
	}
	return plan, nil
}

type differ struct {
	layouts sqlgen.Layouts
	live    Live
	options Options

	findings diag.List

	// Steps, in this order. Drops come behind the view: the old one may read what
	// is dropped. Held ones come first: a script that ends with a comment has an
	// empty statement at its end for some.
	held, alters, viewSteps, drops []Step
}

// checkKinds refuses a view where a table belongs, and the reverse.
func (d *differ) checkKinds() error {
	const hint = "drop or rename it, or set outbox.table_prefix in events.yaml"
	for _, t := range d.layouts.Want.Tables {
		if slices.ContainsFunc(d.live.Schema.Views, func(v ddl.View) bool { return v.Name == t.Name }) {
			return refuse(hint, "the database has a view named %s, where our table belongs", t.Name)
		}
	}
	for _, v := range d.layouts.Want.Views {
		if d.live.Schema.Table(v.Name) != nil {
			return refuse(hint, "the database has a table named %s, where our view belongs", v.Name)
		}
	}
	return nil
}

// strict makes the server refuse a value that doesn't fit a changed column.
func (d *differ) strict() []Step {
	changes := slices.ContainsFunc(d.alters, func(s Step) bool { return strings.HasPrefix(s.SQL, "ALTER TABLE") })
	if d.live.Server.Strict || !changes {
		return nil
	}
	return []Step{{
		Comments: []string{"The server isn't strict: a value that doesn't fit would be cut, not refused."},
		SQL:      "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
	}}
}

func (d *differ) report(table string, c change) { d.findings.Add(c.finding(table)) }

func (d *differ) table(want *ddl.Table) {
	have := d.live.Schema.Table(want.Name)
	if have == nil {
		d.report(want.Name, change{rule: "missing-table", what: "the table is missing"})
		d.alters = append(d.alters, Step{Comments: []string{want.Name + ": the table is missing."}, SQL: want.SQL})
		return
	}
	c := comparison{server: d.live.Server, want: want, have: have, other: d.layouts.Other.Table(want.Name)}
	var now, last []change
	for _, change := range c.changes() {
		d.report(want.Name, change)
		if change.extra {
			last = append(last, change)
		} else {
			now = append(now, change)
		}
	}
	d.alters = append(d.alters, alter(want.Name, now)...)
	d.drop(alter(want.Name, last))
}

func (d *differ) drop(steps []Step) {
	if d.options.Drop {
		d.drops = append(d.drops, steps...)
		return
	}
	for _, step := range steps {
		step.Held = true
		step.Comments = append(step.Comments, "Not dropped without --drop:")
		d.held = append(d.held, step)
	}
}

func (d *differ) views() {
	for _, want := range d.layouts.Want.Views {
		i := slices.IndexFunc(d.live.Schema.Views, func(v ddl.View) bool { return v.Name == want.Name })
		c := change{rule: "missing-view", what: "the view is missing"}
		switch {
		case i < 0:
		case d.live.Schema.Views[i].Query == want.Query:
			continue
		default:
			c = change{rule: "different-view", what: "the view asks something else"}
		}
		d.report(want.Name, c)
		d.viewSteps = append(d.viewSteps, Step{
			Comments: []string{want.Name + ": " + c.what + "."},
			SQL:      "CREATE OR REPLACE" + want.SQL[len("CREATE"):],
		})
	}
}

// extraTables are those of the other ordering. Any other table is the user's.
func (d *differ) extraTables() {
	for _, t := range d.layouts.Other.Tables {
		if d.layouts.Want.Table(t.Name) != nil || d.live.Schema.Table(t.Name) == nil {
			continue
		}
		c := change{
			rule: "extra-table", what: "the table is of the other ordering, and has leases only", extra: true,
			hint: "drop it once no relay of the other ordering runs; --drop prints the statement",
		}
		d.report(t.Name, c)
		d.drop([]Step{{Comments: []string{t.Name + ": " + c.what + "."}, SQL: "DROP TABLE " + t.Name}})
	}
}
