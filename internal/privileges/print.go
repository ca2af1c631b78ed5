package privileges

import (
	"fmt"
	"strings"
)

// Account is a database user.
type Account struct {
	User, Host string
	Database   string // whose tables; empty: those of the connection's
}

// quote writes a name as a SQL string.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

func (a Account) String() string { return quote(a.User) + "@" + quote(a.Host) }

func (a Account) table(name string) string {
	name = ident(name)
	if a.Database != "" {
		name = ident(a.Database) + "." + name
	}
	return name
}

func ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Statements are the GRANTs, one a table, without their semicolons.
func (s Set) Statements(a Account) []string { return statements(s.Grants, a) }

func statements(grants []Grant, a Account) []string {
	var out []string
	for i := 0; i < len(grants); {
		table := grants[i].Table
		var parts []string
		for ; i < len(grants) && grants[i].Table == table; i++ {
			parts = append(parts, grants[i].String())
		}
		out = append(out, fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(parts, ", "), a.table(table), a))
	}
	return out
}

// SQL is the set as a script.
func (s Set) SQL(a Account) string {
	var b strings.Builder
	name := string(s.Role)
	if s.Consumer != "" {
		name += " " + s.Consumer
	}
	fmt.Fprintf(&b, "-- %s: %s.\n", name, about[s.Role])
	fmt.Fprintf(&b, "-- CREATE USER %s IDENTIFIED BY '<password>';\n", a)
	for _, statement := range s.Statements(a) {
		b.WriteString(statement + ";\n")
	}
	why := "to reconcile, to show business rows and to find events by them; SELECT of the primary key's columns too, where they are others"
	if s.Role == Writer {
		why = "to reconcile, which locks: UPDATE of a column too, or DELETE, which the business has"
	}
	for _, statement := range statements(s.Foreign, a) {
		fmt.Fprintf(&b, "%s; -- %s\n", statement, why)
	}
	for _, e := range s.Extras {
		fmt.Fprintf(&b, "-- For %s:\n", e.What)
		for _, statement := range statements(e.Grants, a) {
			fmt.Fprintf(&b, "-- %s;\n", statement)
		}
	}
	return b.String()
}
