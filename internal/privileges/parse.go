package privileges

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Held is what a user has, from SHOW GRANTS.
type Held struct{ grants []held }

// held is one line: some privileges on everything, a database or a table.
type held struct {
	wide    bool                // everything, or a database
	table   string              // of the database that was asked about; empty when wide
	all     bool                // ALL PRIVILEGES
	columns map[string][]string // by privilege; nil: on the table
	as      string              // "ALL PRIVILEGES ON *.*"
	of      []string            // the privileges in their order
}

var (
	grantLine = regexp.MustCompile("^GRANT (.+) ON (?:TABLE )?(\\*|`(?:[^`]|``)+`)\\.(\\*|`(?:[^`]|``)+`) TO ")
	privilege = regexp.MustCompile(`([A-Z][A-Z_ ]*[A-Z])(?: ?\(([^)]*)\))?(?:, |,|$)`)
)

// Parse reads the lines of SHOW GRANTS that concern a database. folded: names of tables are
// compared without regard to case.
func Parse(lines []string, database string, folded bool) Held {
	var h Held
	for _, line := range lines {
		m := grantLine.FindStringSubmatch(line)
		if m == nil {
			continue // a role, a proxy, a routine
		}
		schema, table := unquote(m[2]), unquote(m[3])
		if schema != "*" && !matches(schema, database, table == "*") {
			continue
		}
		g := held{wide: table == "*", columns: map[string][]string{}, as: fmt.Sprintf("%s ON %s.%s", some(m[1]), m[2], m[3])}
		if !g.wide {
			g.table = table
			if folded {
				g.table = strings.ToLower(table)
			}
		}
		for _, p := range privilege.FindAllStringSubmatch(m[1], -1) {
			if p[1] == "ALL PRIVILEGES" || p[1] == "ALL" {
				g.all = true
			}
			columns := strings.FieldsFunc(p[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
			before, twice := g.columns[p[1]]
			switch {
			case !twice:
				g.of = append(g.of, p[1])
			case len(before) == 0: // it has the table
				columns = nil
			}
			g.columns[p[1]] = columns
		}
		h.grants = append(h.grants, g)
	}
	return h
}

// some are the privileges, or how many they are.
func some(privileges string) string {
	const most = 10
	if n := strings.Count(privileges, ",") + 1; n > most {
		return fmt.Sprintf("%d privileges", n)
	}
	return privileges
}

func unquote(name string) string {
	if name == "*" {
		return name
	}
	return strings.ReplaceAll(strings.Trim(name, "`"), "``", "`")
}

// matches compares a database with its name in a grant, a pattern where it is of all tables.
func matches(pattern, database string, wild bool) bool {
	if !wild {
		return pattern == database
	}
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '%':
			b.WriteString(".*")
		case c == '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re, err := regexp.Compile(b.String() + "$")
	return err == nil && re.MatchString(database)
}

// has reports a privilege on a column, or on the whole table where that is empty.
func (h Held) has(table, privilege, column string) bool {
	return slices.ContainsFunc(h.grants, func(g held) bool {
		if !g.wide && g.table != table {
			return false
		}
		columns, named := g.columns[privilege]
		return g.all || named && (len(columns) == 0 || slices.Contains(columns, column))
	})
}

// onTables are the privileges that show a table, with all of its columns and keys, to who has one of
// them on the whole table.
var onTables = []string{"SELECT", "INSERT", "UPDATE", "REFERENCES"}

// Sees reports whether information_schema shows all of a table to the user. Of one that it has
// privileges on columns of only, it shows these.
func (h Held) Sees(table string) bool {
	return slices.ContainsFunc(h.grants, func(g held) bool {
		return (g.wide || g.table == table) && (g.all || slices.ContainsFunc(g.of, func(p string) bool {
			return len(g.columns[p]) == 0 && slices.Contains(onTables, p)
		}))
	})
}

// Missing is what a user doesn't have of a set.
func (s Set) Missing(h Held) Set {
	out := Set{Role: s.Role, Consumer: s.Consumer}
	for _, g := range append(slices.Clone(s.Grants), s.Foreign...) {
		missing := Grant{Table: g.Table, Privilege: g.Privilege}
		for _, c := range g.Columns {
			if !h.has(g.Table, g.Privilege, c) {
				missing.Columns = append(missing.Columns, c)
			}
		}
		if len(missing.Columns) > 0 || len(g.Columns) == 0 && !h.has(g.Table, g.Privilege, "") {
			out.Grants = append(out.Grants, missing)
		}
	}
	return out
}

// TooMuch says what a user has beyond a set: on a whole database or server, and on tables of
// ours. What it has on other tables is its own business.
func (s Set) TooMuch(h Held, ours func(table string) bool) []string {
	var out []string
	for _, g := range h.grants {
		if g.wide {
			if g.all || slices.ContainsFunc(g.of, func(p string) bool { return p != "USAGE" && p != "PROCESS" && p != "SHOW VIEW" }) {
				out = append(out, g.as)
			}
			continue
		}
		if !ours(g.table) {
			continue
		}
		for _, p := range g.of {
			if more := s.beyond(g.table, p, g.columns[p], g.all); more != "" {
				out = append(out, more)
			}
		}
	}
	slices.Sort(out)
	return out
}

// beyond is the part of a privilege that a set hasn't, with what some of its commands need.
func (s Set) beyond(table, privilege string, columns []string, all bool) string {
	allowed := slices.Clone(s.Grants)
	for _, e := range s.Extras {
		allowed = append(allowed, e.Grants...)
	}
	allowed = slices.DeleteFunc(allowed, func(g Grant) bool { return g.Table != table || g.Privilege != privilege })
	on := " ON " + ident(table)
	switch {
	case all || len(allowed) == 0:
		return Grant{table, privilege, columns}.String() + on
	case slices.ContainsFunc(allowed, func(g Grant) bool { return len(g.Columns) == 0 }):
		return ""
	case len(columns) == 0:
		return privilege + on + " as a whole"
	}
	spare := slices.DeleteFunc(slices.Clone(columns), func(c string) bool {
		return slices.ContainsFunc(allowed, func(g Grant) bool { return slices.Contains(g.Columns, c) })
	})
	if len(spare) == 0 {
		return ""
	}
	return Grant{table, privilege, spare}.String() + on
}
