package fakemysql

import (
	"fmt"
	"slices"
	"strings"
)

// statement is a parsed one. Exactly one of its parts is set.
type statement struct {
	query  *query
	insert *insertion
	change *change
	params int
}

// query is a SELECT.
type query struct {
	scope   scope
	names   []string
	items   []expr
	where   *expr
	groupBy []expr
	orderBy []expr
	limit   *expr
	grouped bool
	lock    lockMode
	skip    bool
	keys    []lookup // of the first source
}

// lookup is a condition that a row with the key's column must have one of these values.
type lookup struct {
	column int
	values []expr
}

type insertion struct {
	table   *table
	columns []int
	rows    [][]expr
	update  []assignment // ON DUPLICATE KEY
}

type assignment struct {
	column int
	to     expr
}

// change is an UPDATE, or a DELETE when set is nil.
type change struct {
	scope scope
	where *expr
	keys  []lookup
	set   []assignment
}

type parser struct {
	tables    map[string]*table
	views     map[string]string
	tokens    []token
	at        token
	scope     *scope
	params    int
	aggregate bool // the expression being read has an aggregate function
	err       error
}

// parse reads a statement.
func (s *Server) parse(sql string) (*statement, error) {
	p := &parser{tables: s.tables, views: s.views}
	var st statement
	p.start(sql)
	switch {
	case p.is("SELECT"):
		st.query = p.selectQuery()
	case p.is("INSERT"):
		st.insert = p.insert()
	case p.is("UPDATE"):
		st.change = p.update()
	case p.is("DELETE"):
		st.change = p.delete()
	case p.take("DO"):
		st.query = &query{items: []expr{p.expr()}, names: []string{"1"}}
	default:
		p.fail(fmt.Errorf("a statement that begins with %q", p.at.text))
	}
	if p.at.kind != tokenEnd {
		p.fail(fmt.Errorf("nothing should follow at %q", p.at.text))
	}
	st.params = p.params
	return &st, p.err
}

func (p *parser) start(sql string) {
	tokens, err := lex(sql)
	p.fail(err)
	p.tokens, p.scope = tokens, &scope{}
	p.next()
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	if p.err != nil { // let everything end
		p.tokens, p.at = nil, token{}
	}
}

func (p *parser) next() {
	if len(p.tokens) == 0 {
		p.at = token{}
		return
	}
	p.at, p.tokens = p.tokens[0], p.tokens[1:]
}

func (p *parser) is(word string) bool {
	return p.at.kind != tokenText && p.at.kind != tokenEnd && strings.EqualFold(p.at.text, word)
}

func (p *parser) take(words ...string) bool {
	if !p.is(words[0]) {
		return false
	}
	for _, w := range words {
		p.want(w)
	}
	return true
}

func (p *parser) want(word string) {
	if !p.is(word) {
		p.fail(fmt.Errorf("%q is missing at %q", word, p.at.text))
	}
	p.next()
}

func (p *parser) word() string {
	if p.at.kind != tokenWord {
		p.fail(fmt.Errorf("a name is missing at %q", p.at.text))
	}
	name := p.at.text
	p.next()
	return name
}

func (p *parser) table() *table {
	name := p.word()
	t := p.tables[strings.ToLower(name)]
	if t == nil {
		p.fail(fmt.Errorf("table %s doesn't exist", name))
		return &table{}
	}
	return t
}

// forceIndex reads a hint, which says how and not what.
func (p *parser) forceIndex() {
	if p.take("FORCE", "INDEX", "(") {
		p.word()
		p.want(")")
	}
}

func (p *parser) selectQuery() *query {
	p.want("SELECT")
	q := &query{}
	outer := p.scope
	p.scope = &q.scope
	defer func() { p.scope = outer }()
	// The sources say what the items mean, and come behind them.
	before := p.params
	items := p.skipTo("FROM")
	if p.take("FROM") {
		p.sources(q)
	}
	rest, at, params := p.tokens, p.at, p.params
	p.params = before
	p.tokens = items
	p.next()
	p.items(q)
	if p.err != nil {
		return q
	}
	p.tokens, p.at = rest, at
	p.params = params
	if p.take("WHERE") {
		q.where, q.keys = p.condition()
	}
	if p.take("GROUP", "BY") {
		q.groupBy, q.grouped = p.list(), true
	}
	if p.take("ORDER", "BY") {
		q.orderBy = p.list()
	}
	if p.take("LIMIT") {
		limit := p.primary()
		q.limit = &limit
	}
	switch {
	case p.take("FOR", "UPDATE"):
		q.lock, q.skip = exclusive, p.take("SKIP", "LOCKED")
	case p.take("LOCK", "IN", "SHARE", "MODE"):
		q.lock = shared
	}
	return q
}

// skipTo takes the tokens before a word of this level.
func (p *parser) skipTo(word string) []token {
	var out []token
	depth := 0
	for p.at.kind != tokenEnd && (depth > 0 || !p.is(word) && !p.is(")")) {
		switch {
		case p.is("("):
			depth++
		case p.is(")"):
			depth--
		case p.at.kind == tokenParam:
			p.params++
		}
		out = append(out, p.at)
		p.next()
	}
	return out
}

func (p *parser) items(q *query) {
	for {
		name, before := p.at.text, p.tokens
		p.aggregate = false
		q.items = append(q.items, p.expr())
		q.grouped = q.grouped || p.aggregate
		if len(before) > 1 && before[0].text == "." {
			name = before[1].text
		}
		if p.take("AS") {
			name = p.word()
		}
		q.names = append(q.names, name)
		if !p.take(",") {
			break
		}
	}
	if p.at.kind != tokenEnd {
		p.fail(fmt.Errorf("nothing should follow at %q", p.at.text))
	}
}

func (p *parser) sources(q *query) {
	q.scope.sources = append(q.scope.sources, p.source())
	for {
		left := p.take("LEFT")
		if !left && !p.is("JOIN") {
			return
		}
		p.want("JOIN")
		src := p.source()
		src.left = left
		q.scope.sources = append(q.scope.sources, src)
		p.want("ON")
		on := p.expr()
		q.scope.sources[len(q.scope.sources)-1].on = &on
	}
}

func (p *parser) source() source {
	var src source
	if p.take("(") {
		src.query = p.selectQuery()
		src.columns = src.query.names
		p.want(")")
	} else {
		name := strings.ToLower(p.word())
		src.alias = name
		if view, ok := p.views[name]; ok {
			inner := &parser{tables: p.tables, views: p.views}
			inner.start(view)
			src.query = inner.selectQuery()
			p.fail(inner.err)
			src.columns = src.query.names
		} else if src.table = p.tables[name]; src.table != nil {
			src.columns = src.table.names
		} else {
			p.fail(fmt.Errorf("table %s doesn't exist", name))
		}
	}
	p.take("AS")
	if p.at.kind == tokenWord && !slices.ContainsFunc(afterSource, p.is) {
		src.alias = p.word()
	}
	p.forceIndex()
	return src
}

var afterSource = []string{"FORCE", "JOIN", "LEFT", "ON", "WHERE", "GROUP", "ORDER", "LIMIT", "FOR", "LOCK", "SET"}

func (p *parser) list() []expr {
	var out []expr
	for {
		out = append(out, p.expr())
		if !p.take(",") {
			return out
		}
	}
}

// condition reads a WHERE, and what it says of the first source's key.
func (p *parser) condition() (*expr, []lookup) {
	start, at, params := slices.Clone(p.tokens), p.at, p.params
	e := p.expr()
	rest, restAt, restParams := p.tokens, p.at, p.params
	var keys []lookup
	if len(p.scope.sources) == 1 && p.scope.sources[0].table != nil && p.err == nil {
		p.tokens, p.at, p.params = start, at, params
		keys = p.lookups(p.scope.sources[0].table)
	}
	p.tokens, p.at, p.params = rest, restAt, restParams
	return &e, keys
}

// lookups reads a condition once more, for `column = x` and `column IN (…)` among those
// that are joined by AND.
func (p *parser) lookups(t *table) []lookup {
	var out []lookup
	for {
		name := p.at.text
		before := len(p.tokens)
		a := p.sum()
		simple := before-len(p.tokens) == 1
		if !simple && before-len(p.tokens) == 3 {
			name = "" // alias.column: found below by its column alone
		}
		column := -1
		if a.deps != 0 {
			column = p.columnOf(t, name, a)
		}
		switch {
		case p.at.kind == tokenSign && signs[p.at.text] != nil:
			equal := p.is("=")
			p.next()
			b := p.sum()
			if equal && column >= 0 && b.deps == 0 {
				out = append(out, lookup{column, []expr{b}})
			}
		case p.take("IS"):
			p.take("NOT")
			p.want("NULL")
		case p.take("NOT"):
			p.want("IN")
			p.in(a, true)
		case p.take("IN", "("):
			values := p.list()
			p.want(")")
			if column >= 0 {
				out = append(out, lookup{column, values})
			}
		}
		if p.is("OR") {
			return nil
		}
		if !p.take("AND") {
			return out
		}
	}
}

// columnOf tells which column an expression is: it is asked with a row whose values
// are their own places.
func (p *parser) columnOf(t *table, name string, e expr) int {
	if n := t.index(name); name != "" && n >= 0 {
		return n
	}
	if name != "" {
		return -1
	}
	row := make([]value, len(t.names))
	for i := range row {
		row[i] = value{kind: interval, i: int64(i)}
	}
	if v := e.eval(&env{rows: [][]value{row}}); v.kind == interval {
		return int(v.i)
	}
	return -1
}

func (p *parser) insert() *insertion {
	p.want("INSERT")
	p.want("INTO")
	ins := &insertion{table: p.table()}
	p.want("(")
	for {
		ins.columns = append(ins.columns, p.columnIndex(ins.table))
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	p.want("VALUES")
	for {
		p.want("(")
		row := p.list()
		p.want(")")
		if len(row) != len(ins.columns) {
			p.fail(fmt.Errorf("%d values for %d columns", len(row), len(ins.columns)))
		}
		ins.rows = append(ins.rows, row)
		if !p.take(",") {
			break
		}
	}
	if p.take("ON", "DUPLICATE", "KEY", "UPDATE") {
		p.scope = &scope{insert: ins.table, sources: []source{{alias: ins.table.name, columns: ins.table.names, table: ins.table}}}
		ins.update = p.assignments(ins.table)
	}
	return ins
}

func (p *parser) columnIndex(t *table) int {
	name := p.word()
	n := t.index(name)
	if n < 0 {
		p.fail(fmt.Errorf("unknown column %s", name))
	}
	return n
}

func (p *parser) assignments(t *table) []assignment {
	var out []assignment
	for {
		column := p.columnIndex(t)
		p.want("=")
		out = append(out, assignment{column, p.expr()})
		if !p.take(",") {
			return out
		}
	}
}

func (p *parser) update() *change {
	p.want("UPDATE")
	c := &change{scope: scope{sources: []source{p.source()}}}
	p.scope = &c.scope
	p.want("SET")
	if t := c.scope.sources[0].table; t != nil {
		c.set = p.assignments(t)
	}
	p.want("WHERE")
	c.where, c.keys = p.condition()
	return c
}

func (p *parser) delete() *change {
	p.want("DELETE")
	if !p.is("FROM") {
		p.word() // the alias
	}
	p.want("FROM")
	c := &change{scope: scope{sources: []source{p.source()}}}
	p.scope = &c.scope
	p.want("WHERE")
	c.where, c.keys = p.condition()
	return c
}
