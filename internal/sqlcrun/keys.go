package sqlcrun

import (
	"slices"
	"strings"
)

// table is what the user's DDL says about the keys of a table. It is read to
// tell whether a request is unique, and a false alarm would stop a correct
// project: what isn't understood makes the table unclear, and whatever may be
// a unique key counts as one. Dropped keys are kept.
type table struct {
	name    string
	created []place // where it is created
	keys    []uniqueKey
	ignored map[string]bool // columns, in lower case, that a key may have beside those of a request
	unclear bool
}

// uniqueKey holds the columns of a primary or unique key, in lower case. An
// expression in it is left out.
type uniqueKey []string

type place struct {
	file   string
	offset int
}

// readTable looks through the user's DDL for what it says about a table.
func readTable(name string, schema []schemaFile) table {
	t := table{name: name, ignored: map[string]bool{}}
	for _, f := range schema {
		statements, ok := statementsOf(string(f.data))
		if !ok {
			t.unclear = true
			continue
		}
		for _, s := range statements {
			t.read(f.path, s)
		}
	}
	return t
}

// hasKeyWithin reports whether a unique key has no columns but these.
func (t *table) hasKeyWithin(columns []string) bool {
	return slices.ContainsFunc(t.keys, func(key uniqueKey) bool {
		return !slices.ContainsFunc(key, func(column string) bool {
			return !t.ignored[column] && !slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, column) })
		})
	})
}

func (t *table) read(file string, s []token) {
	if !slices.ContainsFunc(s, t.isMentioned) {
		return
	}
	head := s[0]
	rest := afterWords(s[1:], "OR", "REPLACE", "TEMPORARY", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL")
	switch {
	case head.is("CREATE") && len(rest) > 0 && rest[0].is("TABLE"):
		rest = afterWords(rest[1:], "IF", "NOT", "EXISTS")
		name, rest := tableName(rest)
		if name.isName(t.name) {
			t.created = append(t.created, place{file, name.at})
			t.createTable(rest)
		}
	case head.is("CREATE") && len(rest) > 0 && rest[0].is("INDEX"):
		if unique := s[:len(s)-len(rest)]; slices.ContainsFunc(unique, func(tok token) bool { return tok.is("UNIQUE") }) {
			t.createUniqueIndex(rest)
		}
	case head.is("ALTER") && len(rest) > 0 && rest[0].is("TABLE"):
		rest = afterWords(rest[1:], "IF", "EXISTS")
		name, rest := tableName(rest)
		switch {
		case name.isName(t.name):
			t.alterTable(rest)
		case slices.ContainsFunc(rest, func(tok token) bool { return tok.is("RENAME", "EXCHANGE") }):
			t.unclear = true // another table takes its place
		}
	case head.is("CREATE", "DROP", "TRUNCATE", "INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "LOCK", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE"):
		// No unique key comes from these, but for a routine.
		t.unclear = t.unclear || slices.ContainsFunc(s, func(tok token) bool { return tok.is("ALTER", "RENAME") })
	default:
		t.unclear = true // RENAME TABLE, and what we don't know
	}
}

// isMentioned finds the table's name, in a text too: that may be a statement
// to prepare.
func (t *table) isMentioned(tok token) bool {
	return tok.isName(t.name) ||
		tok.kind == tokenString && strings.Contains(strings.ToLower(tok.text), strings.ToLower(t.name))
}

// afterWords passes over keywords that may stand before what counts.
func afterWords(s []token, words ...string) []token {
	for len(s) > 0 && s[0].is(words...) {
		s = s[1:]
	}
	return s
}

// tableName cuts the name of a table off, of which the database's is left out.
func tableName(s []token) (name token, rest []token) {
	if len(s) > 2 && s[1].isSign(".") {
		s = s[2:]
	}
	if len(s) == 0 || !s[0].isName("") {
		return token{kind: tokenSign}, s
	}
	return s[0], s[1:]
}

func (t *table) createTable(rest []token) {
	elements, _, ok := cutGroup(rest)
	if !ok { // LIKE another, or from a SELECT
		t.unclear = true
		return
	}
	for _, e := range splitList(elements) {
		t.element(e)
	}
}

// element reads a column, a key or a constraint of a table.
func (t *table) element(e []token) {
	if len(e) > 0 && e[0].is("CONSTRAINT") {
		kind := slices.IndexFunc(e, func(tok token) bool { return tok.is("PRIMARY", "UNIQUE", "FOREIGN", "CHECK") })
		if kind < 0 {
			t.unclear = true
			return
		}
		e = e[kind:]
	}
	switch {
	case len(e) == 0 || !e[0].isName("") || e[0].is("LIKE", "SELECT", "WITH", "AS"):
		t.unclear = true
	case e[0].is("PRIMARY", "UNIQUE"):
		t.addKey(e)
	case e[0].is("KEY", "INDEX", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"):
	default:
		t.column(e[0], shallow(e[1:]))
	}
}

// column reads the definition of a column: type and attributes. A text such as
// a COMMENT is no keyword, and the inner of parentheses is not looked at.
func (t *table) column(name token, def []token) {
	for _, tok := range def {
		switch {
		case tok.is("UNIQUE", "PRIMARY", "KEY", "SERIAL"): // KEY alone is a primary key, SERIAL is unique
			t.keys = append(t.keys, uniqueKey{strings.ToLower(name.text)})
		case tok.is("AS", "GENERATED"):
			t.ignored[strings.ToLower(name.text)] = true // may stand for the columns that it is made of
		}
	}
}

// addKey reads the columns of a key: the first parentheses in what defines it.
func (t *table) addKey(def []token) {
	open := slices.IndexFunc(def, func(tok token) bool { return tok.isSign("(") })
	if open < 0 {
		t.unclear = true
		return
	}
	parts, _, ok := cutGroup(def[open:])
	if !ok || len(parts) == 0 {
		t.unclear = true
		return
	}
	var key uniqueKey
	for _, part := range splitList(parts) {
		switch {
		case len(part) > 0 && part[0].isName(""): // a length, ASC or DESC may follow
			key = append(key, strings.ToLower(part[0].text))
		case len(part) > 0 && part[0].isSign("("):
		default:
			t.unclear = true
		}
	}
	t.keys = append(t.keys, key)
}

// createUniqueIndex reads INDEX name ON table (columns).
func (t *table) createUniqueIndex(s []token) {
	on := slices.IndexFunc(s, func(tok token) bool { return tok.is("ON") })
	if on < 0 {
		t.unclear = true
		return
	}
	if name, rest := tableName(s[on+1:]); name.isName(t.name) {
		t.addKey(rest)
	}
}

func (t *table) alterTable(rest []token) {
	for _, action := range splitList(rest) {
		t.action(action)
	}
}

// action reads one of the changes of ALTER TABLE.
func (t *table) action(a []token) {
	if len(a) == 0 {
		t.unclear = true
		return
	}
	def := afterWords(a[1:], "COLUMN", "IF", "NOT", "EXISTS")
	switch {
	case a[0].is("ADD"):
		if columns, _, ok := cutGroup(def); ok {
			for _, e := range splitList(columns) {
				t.element(e)
			}
			return
		}
		t.element(def)
	case a[0].is("MODIFY"):
		t.element(def)
	case a[0].is("CHANGE") && len(def) > 1 && strings.EqualFold(def[0].text, def[1].text):
		t.element(def[1:])
	case a[0].is("DROP"): // a key loses a column that is dropped
		if def = afterWords(def, "KEY", "INDEX", "PRIMARY", "CONSTRAINT"); len(def) > 0 {
			t.ignored[strings.ToLower(def[0].text)] = true
		}
	case a[0].is("CHANGE"), a[0].is("RENAME") && (len(a) < 2 || !a[1].is("INDEX", "KEY")),
		slices.ContainsFunc(shallow(a), func(tok token) bool { return tok.is("UNIQUE", "PRIMARY") }):
		t.unclear = true
	}
}
