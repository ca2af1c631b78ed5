package privileges

import (
	"regexp"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

// deriver tells from the text of a statement which privileges it takes. It knows the
// statements of our templates, and those of this package, which are written like them.
type deriver struct {
	schema ddl.Schema
	server Server
	needs  map[need]bool
}

// need is the smallest piece of a privilege.
type need struct {
	table, privilege string
	column           string // empty: the table
}

func (d *deriver) add(table, privilege string, columns ...string) {
	if len(columns) == 0 {
		columns = []string{""}
	}
	for _, c := range columns {
		d.needs[need{table, privilege, c}] = true
	}
}

var (
	cast     = regexp.MustCompile(`(?i)CAST\(sqlc\.\w+\(\w+\) AS SIGNED\)|sqlc\.\w+\(\w+\)|'[^']*'`)
	source   = regexp.MustCompile("(?:FROM|JOIN|INTO|UPDATE) `?([a-z_0-9]+)`?(?: AS)?(?: ([a-z]+)\\b)?")
	word     = regexp.MustCompile(`(?:\b([a-z]+)\.)?\b([a-z_0-9]+)\b`)
	inserted = regexp.MustCompile(`^INSERT INTO \S+ \(([^)]*)\)`)
	assigned = regexp.MustCompile(`(?m)(?:^|,|SET|UPDATE)\s*([a-z_]+) = `)
)

// statement adds what a statement needs.
func (d *deriver) statement(sql string) {
	text := cast.ReplaceAllString(sql, "?")
	switch verb, _, _ := strings.Cut(text, " "); strings.TrimSpace(strings.SplitN(verb, "\n", 2)[0]) {
	case "SELECT":
		d.reads(text, text)
	case "INSERT":
		d.insert(text)
	case "UPDATE":
		head, rest, _ := strings.Cut(text, "SET ")
		set, where, _ := strings.Cut(rest, "WHERE ")
		table := source.FindStringSubmatch(head)[1]
		d.reads(text, d.assignments(table, "SET "+set)+" "+where)
	case "DELETE":
		d.add(source.FindStringSubmatch(text)[1], "DELETE")
		d.reads(text, text)
	}
}

func (d *deriver) insert(text string) {
	table := source.FindStringSubmatch(text)[1]
	columns := strings.FieldsFunc(inserted.FindStringSubmatch(text)[1], func(r rune) bool { return strings.ContainsRune(", \n", r) })
	d.add(table, "INSERT", columns...)
	_, update, found := strings.Cut(text, "ON DUPLICATE KEY")
	if !found {
		return
	}
	if d.server != MySQL { // what it inserts may be what it updates
		d.add(table, "UPDATE", columns...)
	}
	d.reads(text, d.assignments(table, update))
}

// assignments adds what is set, and returns the rest: what is read for it.
func (d *deriver) assignments(table, set string) string {
	for _, m := range assigned.FindAllStringSubmatch(set, -1) {
		d.add(table, "UPDATE", m[1])
	}
	return assigned.ReplaceAllString(set, "")
}

// reads adds the columns of the statement's tables that are named in a part of it.
func (d *deriver) reads(statement, part string) {
	aliases := map[string]string{}
	var tables []string
	for _, m := range source.FindAllStringSubmatch(statement, -1) {
		if d.schema.Table(m[1]) == nil {
			if slices.ContainsFunc(d.schema.Views, func(v ddl.View) bool { return v.Name == m[1] }) {
				d.add(m[1], "SELECT")
			}
			continue
		}
		tables = append(tables, m[1])
		if m[2] != "" {
			aliases[m[2]] = m[1]
		}
	}
	counts := strings.Contains(part, "COUNT(*)")
	for _, table := range tables {
		for _, m := range word.FindAllStringSubmatch(part, -1) {
			if of, known := aliases[m[1]]; m[1] != "" && (!known || of != table) {
				continue
			}
			if d.schema.Table(table).Column(m[2]) != nil {
				d.add(table, "SELECT", m[2])
				counts = false
			}
		}
		if counts { // any column will do
			d.add(table, "SELECT", d.schema.Table(table).PrimaryKey[0])
		}
	}
}
