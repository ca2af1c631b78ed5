package schemadiff

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

func (c *comparison) column(want *ddl.Column) {
	have := c.have.Column(want.Name)
	if have == nil {
		c.addColumn(want)
		return
	}
	differences, most := c.differences(want, have)
	if len(differences) == 0 {
		return
	}
	x := change{
		rule: "different-column", effort: most,
		what:    fmt.Sprintf("the column %s %s", want.Name, strings.Join(differences, ", and ")),
		clauses: []string{fmt.Sprintf("MODIFY COLUMN %s %s", want.Name, want.Definition)},
	}
	if want.Generated != "" && want.Generated != have.Generated {
		x.note = "Stop all relays before, and start them after: events may change lanes under them."
		x.hint = "stop all relays before the statement runs, and start them after; the server copies the table, and writers wait meanwhile"
	}
	switch {
	case most == instant: // the default alone
		x.clauses = []string{fmt.Sprintf("ALTER COLUMN %s DROP DEFAULT", want.Name)}
		if want.HasDefault {
			x.clauses = []string{fmt.Sprintf("ALTER COLUMN %s SET DEFAULT '%s'", want.Name, want.Default)}
		}
	case have.Virtual || (want.Generated != "") != (have.Generated != ""):
		// The servers refuse to make the one of the other. Its values are made anew.
		c.new[want.Name] = true
		x.clauses = []string{"DROP COLUMN " + want.Name, fmt.Sprintf("ADD COLUMN %s %s", want.Name, want.Definition)}
	}
	c.add(x)
}

// differences says how a column differs, and what it takes to change that.
func (c *comparison) differences(want, have *ddl.Column) ([]string, effort) {
	var out []string
	most := instant
	differ := func(e effort, format string, args ...any) {
		out = append(out, fmt.Sprintf(format, args...))
		most = max(most, e)
	}
	if want.Type != have.Type {
		differ(c.retype(want, have), "is %s, not %s", have.Type, want.Type)
	}
	if want.Charset != have.Charset {
		differ(copies, "has the charset %s, not %s", orNone(have.Charset), orNone(want.Charset))
	} else if want.Collation != "" && want.Collation != have.Collation {
		differ(copies, "has the collation %s, not %s", orNone(have.Collation), want.Collation)
	}
	if want.NotNull != have.NotNull {
		differ(c.renull(), "%s be NULL", map[bool]string{true: "may", false: "may not"}[want.NotNull])
	}
	if want.Generated != have.Generated || want.Virtual != have.Virtual {
		differ(copies, "is made by %s, not by %s", orNone(spelled(have.Generated)), orNone(spelled(want.Generated)))
	}
	if want.Extra != have.Extra {
		differ(copies, "has the attribute %s, not %s", orNone(have.Extra), orNone(want.Extra))
	}
	if want.HasDefault != have.HasDefault || want.Default != have.Default {
		differ(instant, "has the default %s, not %s", defaultOf(have), defaultOf(want))
	}
	return out, most
}

// renull is what it takes to let a column be NULL, or no longer: MariaDB copies a
// table that has stored generated columns.
func (c *comparison) renull() effort {
	if c.server.MariaDB && slices.ContainsFunc(c.have.Columns, func(column ddl.Column) bool { return column.Generated != "" }) {
		return copies
	}
	return inplace
}

var varchar = regexp.MustCompile(`^varchar\((\d+)\)$`)

// retype is what a change of the type takes: a VARCHAR may become longer in place, as
// long as its length takes as many bytes as before.
func (c *comparison) retype(want, have *ddl.Column) effort {
	w, h := varchar.FindStringSubmatch(want.Type), varchar.FindStringSubmatch(have.Type)
	if w == nil || h == nil || want.Charset != have.Charset {
		return copies
	}
	wide := 1
	if want.Charset == "utf8mb4" {
		wide = 4
	}
	from, _ := strconv.Atoi(h[1]) // digits
	to, _ := strconv.Atoi(w[1])
	if from < to && (from*wide > 255) == (to*wide > 255) {
		return inplace
	}
	return copies
}

func (c *comparison) addColumn(want *ddl.Column) {
	x := change{
		rule: "missing-column", effort: instant,
		what:    fmt.Sprintf("the column %s is missing", want.Name),
		clauses: []string{fmt.Sprintf("ADD COLUMN %s %s", want.Name, want.Definition)},
	}
	switch {
	case want.Generated != "", want.Extra != "":
		x.effort = copies
	case want.NotNull && !want.HasDefault:
		x.note = "What it held is not known: look at the rows that are there, and give them their values."
		x.hint = "rows that are there get an empty value: give them the right one"
		if filler := c.filler(want); filler != "" {
			x.effort = inplace
			if strings.HasPrefix(filler, "(") {
				x.effort = copies
			}
			x.clauses[0] += " DEFAULT " + filler
			x.after = []string{fmt.Sprintf("ALTER COLUMN %s DROP DEFAULT", want.Name)}
		}
	}
	c.add(x)
}

// filler is what rows get for a column that has no default, where the type has no
// empty value that a strict server takes.
func (c *comparison) filler(want *ddl.Column) string {
	switch {
	case strings.HasPrefix(want.Type, "datetime"):
		return "'1970-01-01 00:00:00'"
	case want.Type == "json" && c.server.MariaDB:
		return "'{}'"
	case want.Type == "json":
		return "(JSON_OBJECT())"
	}
	return ""
}

func (c *comparison) extraColumns() {
	for i := range c.have.Columns {
		have := &c.have.Columns[i]
		if c.want.Column(have.Name) != nil {
			continue
		}
		x := change{
			rule: "extra-column", what: fmt.Sprintf("the column %s is not ours", have.Name), extra: true,
			hint:    "it may hold data; --drop prints the statement that drops it",
			clauses: []string{"DROP COLUMN " + quoted(have.Name)}, effort: instant,
		}
		if have.Generated != "" || !c.server.MariaDB && !c.server.AtLeast(8, 0, 29) {
			x.effort = inplace
		}
		switch {
		case c.other != nil && c.other.Column(have.Name) != nil:
			x.what = fmt.Sprintf("the column %s is of the other ordering", have.Name)
			x.hint = "drop it once no relay of the other ordering runs; --drop prints the statement"
		case have.NotNull && !have.HasDefault && have.Generated == "" && have.Extra == "":
			x.hint = "it has no default, so that our rows are refused: give it one, or drop it, for which --drop prints the statement"
		}
		c.add(x)
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func defaultOf(c *ddl.Column) string {
	if !c.HasDefault {
		return "none"
	}
	if strings.HasPrefix(c.Default, "(") {
		return spelled(c.Default)
	}
	return "'" + c.Default + "'"
}

// spelled is an expression as people write it.
func spelled(canonical string) string {
	return strings.NewReplacer(" ( ", "(", " )", ")", " , ", ", ").Replace(canonical)
}
