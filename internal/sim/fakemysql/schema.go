package fakemysql

import (
	"fmt"
	"slices"
	"strings"
)

// table is a table with one unique key: the first UNIQUE constraint where the primary key
// is a counter, else the primary key.
type table struct {
	name    string
	names   []string
	columns []column
	keyName string
	key     []int

	rows  map[string]*row
	order []*row // by key
	count int64  // of AUTO_INCREMENT
}

type column struct {
	fallback  *value // DEFAULT
	counter   bool   // AUTO_INCREMENT
	generated *expr
	moment    bool
}

func (t *table) index(name string) int {
	return slices.IndexFunc(t.names, func(n string) bool { return strings.EqualFold(n, name) })
}

func (t *table) keyOf(values []value) string {
	if len(t.key) == 1 {
		return values[t.key[0]].keyPart()
	}
	var b strings.Builder
	for _, c := range t.key {
		b.WriteString(values[c].keyPart())
	}
	return b.String()
}

// Apply runs CREATE TABLE and CREATE VIEW statements, before anyone connects.
func (s *Server) Apply(ddl ...string) error {
	for _, sql := range ddl {
		p := &parser{tables: s.tables, views: s.views}
		p.start(sql)
		p.want("CREATE")
		if p.take("VIEW") {
			name := p.word()
			_, body, _ := strings.Cut(sql, " AS\n")
			s.views[strings.ToLower(name)] = body
		} else {
			p.want("TABLE")
			if t := p.createTable(); p.err == nil {
				s.tables[strings.ToLower(t.name)] = t
			}
		}
		if p.err != nil {
			return fmt.Errorf("%w in %q", p.err, sql)
		}
	}
	return nil
}

func (p *parser) createTable() *table {
	t := &table{name: p.word(), rows: map[string]*row{}}
	p.want("(")
	var unique []int
	var uniqueName string
	for {
		switch {
		case p.take("PRIMARY", "KEY"):
			t.key, t.keyName = p.keyColumns(t), "PRIMARY"
		case p.take("CONSTRAINT"):
			name := p.word()
			if p.take("UNIQUE") {
				columns := p.keyColumns(t)
				if unique == nil {
					unique, uniqueName = columns, name
				}
			} else {
				p.skipTo(",")
			}
		case p.take("KEY"):
			p.word()
			p.keyColumns(t)
		default:
			p.createColumn(t)
		}
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	if len(t.key) == 1 && t.columns[t.key[0]].counter && unique != nil {
		t.key, t.keyName = unique, uniqueName
	}
	if len(t.key) == 0 {
		p.fail(fmt.Errorf("table %s has no key", t.name))
	}
	return t
}

func (p *parser) keyColumns(t *table) []int {
	p.want("(")
	var out []int
	for {
		out = append(out, p.columnIndex(t))
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	return out
}

func (p *parser) createColumn(t *table) {
	t.names, t.columns = append(t.names, p.word()), append(t.columns, column{})
	c := &t.columns[len(t.columns)-1]
	c.moment = p.is("DATETIME")
	depth := 0
	for p.at.kind != tokenEnd && (depth > 0 || !p.is(",") && !p.is(")")) {
		switch {
		case p.is("("):
			depth++
		case p.is(")"):
			depth--
		case p.is("AUTO_INCREMENT"):
			c.counter = true
		case p.is("DEFAULT"):
			p.next()
			e := p.primary()
			if p.err == nil {
				v := e.eval(&env{})
				c.fallback = &v
			}
			continue
		case p.is("AS"):
			p.next()
			p.scope = &scope{sources: []source{{alias: t.name, columns: t.names, table: t}}}
			e := p.primary()
			c.generated = &e
			continue
		}
		p.next()
	}
}
