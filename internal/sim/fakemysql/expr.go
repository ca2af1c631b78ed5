package fakemysql

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// expr is an expression; deps are the sources that it reads.
type expr struct {
	eval func(*env) value
	deps uint32
}

// env is what an expression is evaluated in.
type env struct {
	now   int64 // microseconds since 1970, by the server's clock
	args  []value
	rows  [][]value   // of the sources; nil where a LEFT JOIN found none
	group [][][]value // of an aggregate function
	next  []value     // the row that INSERT could not insert, for VALUES()
}

// scope says what a name means.
type scope struct {
	sources []source
	insert  *table // whose columns VALUES() names
}

type source struct {
	alias   string
	columns []string
	table   *table // nil of a subquery
	query   *query // of a subquery or view
	left    bool
	on      *expr
}

func (s *scope) column(alias, name string) (expr, error) {
	found := expr{}
	for i := range s.sources {
		src := &s.sources[i]
		if alias != "" && !strings.EqualFold(alias, src.alias) {
			continue
		}
		for j, c := range src.columns {
			if !strings.EqualFold(c, name) {
				continue
			}
			if found.eval != nil {
				return expr{}, fmt.Errorf("column %s is ambiguous", name)
			}
			found = expr{deps: 1 << i, eval: func(e *env) value {
				if e.rows[i] == nil {
					return value{}
				}
				return e.rows[i][j]
			}}
		}
	}
	if found.eval == nil {
		return expr{}, fmt.Errorf("unknown column %s", name)
	}
	return found, nil
}

func constant(v value) expr { return expr{eval: func(*env) value { return v }} }

func (p *parser) expr() expr { return p.or() }

func (p *parser) or() expr {
	e := p.and()
	for p.take("OR") {
		a, b := e, p.and()
		e = expr{deps: a.deps | b.deps, eval: func(v *env) value { return boolValue(a.eval(v).isTrue() || b.eval(v).isTrue()) }}
	}
	return e
}

func (p *parser) and() expr {
	e := p.comparison()
	for p.take("AND") {
		a, b := e, p.comparison()
		e = expr{deps: a.deps | b.deps, eval: func(v *env) value { return boolValue(a.eval(v).isTrue() && b.eval(v).isTrue()) }}
	}
	return e
}

var signs = map[string]func(int) bool{
	"=": func(c int) bool { return c == 0 }, "<>": func(c int) bool { return c != 0 },
	"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
	">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
}

func (p *parser) comparison() expr {
	a := p.sum()
	switch {
	case p.at.kind == tokenSign && signs[p.at.text] != nil:
		holds := signs[p.at.text]
		p.next()
		b := p.sum()
		return expr{deps: a.deps | b.deps, eval: func(v *env) value {
			c, ok := compare(a.eval(v), b.eval(v))
			if !ok {
				return value{}
			}
			return boolValue(holds(c))
		}}
	case p.take("IS"):
		not := p.take("NOT")
		p.want("NULL")
		return expr{deps: a.deps, eval: func(v *env) value { return boolValue((a.eval(v).kind == null) != not) }}
	case p.is("NOT"), p.is("IN"):
		not := p.take("NOT")
		p.want("IN")
		return p.in(a, not)
	}
	return a
}

func (p *parser) in(a expr, not bool) expr {
	p.want("(")
	var list []expr
	deps := a.deps
	for {
		e := p.expr()
		deps |= e.deps
		list = append(list, e)
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	return expr{deps: deps, eval: func(v *env) value {
		x := a.eval(v)
		for _, e := range list {
			if c, ok := compare(x, e.eval(v)); ok && c == 0 {
				return boolValue(!not)
			}
		}
		return boolValue(not && x.kind != null)
	}}
}

func (p *parser) sum() expr {
	e := p.product()
	for p.is("+") || p.is("-") {
		minus := p.is("-")
		p.next()
		a, b := e, p.product()
		e = expr{deps: a.deps | b.deps, eval: func(v *env) value {
			x, y := a.eval(v), b.eval(v)
			if y.kind == interval {
				x = x.asMoment()
			}
			if x.kind == null || y.kind == null {
				return value{}
			}
			if minus {
				y.i = -y.i
			}
			return value{kind: x.kind, i: x.i + y.i}
		}}
	}
	return e
}

func (p *parser) product() expr {
	e := p.primary()
	for p.take("%") {
		a, b := e, p.primary()
		e = expr{deps: a.deps | b.deps, eval: func(v *env) value { return intValue(a.eval(v).i % b.eval(v).i) }}
	}
	return e
}

func (p *parser) primary() expr {
	t := p.at
	switch t.kind {
	case tokenNumber:
		p.next()
		n, err := strconv.ParseInt(t.text, 10, 64)
		p.fail(err)
		return constant(intValue(n))
	case tokenText:
		p.next()
		return constant(textValue(t.text))
	case tokenParam:
		p.next()
		n := p.params
		p.params++
		return expr{eval: func(v *env) value { return v.args[n] }}
	case tokenSign:
		p.want("(")
		e := p.expr()
		p.want(")")
		return e
	case tokenWord:
		p.next()
		switch {
		case strings.EqualFold(t.text, "CASE"):
			return p.caseWhen()
		case strings.EqualFold(t.text, "INTERVAL"):
			e := p.primary()
			p.want("MICROSECOND")
			return expr{deps: e.deps, eval: func(v *env) value { return value{kind: interval, i: e.eval(v).i} }}
		case p.take("("):
			return p.call(strings.ToUpper(t.text))
		case p.take("."):
			return p.column(t.text, p.word())
		default:
			return p.column("", t.text)
		}
	}
	p.fail(fmt.Errorf("an expression is missing at %q", t.text))
	return constant(value{})
}

func (p *parser) column(alias, name string) expr {
	e, err := p.scope.column(alias, name)
	if err != nil {
		p.fail(err)
		return constant(value{})
	}
	return e
}

func (p *parser) caseWhen() expr {
	var conditions, results []expr
	var deps uint32
	for p.take("WHEN") {
		c := p.expr()
		p.want("THEN")
		r := p.expr()
		conditions, results = append(conditions, c), append(results, r)
		deps |= c.deps | r.deps
	}
	otherwise := constant(value{})
	if p.take("ELSE") {
		otherwise = p.expr()
		deps |= otherwise.deps
	}
	p.want("END")
	return expr{deps: deps, eval: func(v *env) value {
		for i, c := range conditions {
			if c.eval(v).isTrue() {
				return results[i].eval(v)
			}
		}
		return otherwise.eval(v)
	}}
}

const second = 1_000_000 // in microseconds

// call is a function's; the opening parenthesis is read.
func (p *parser) call(name string) expr {
	switch name {
	case "UTC_TIMESTAMP":
		p.want(")")
		return expr{eval: func(v *env) value { return value{kind: moment, i: v.now - v.now%second} }}
	case "CURRENT_TIMESTAMP":
		p.want("6")
		p.want(")")
		return expr{eval: func(v *env) value { return value{kind: moment, i: v.now} }}
	case "COUNT":
		p.want("*")
		p.want(")")
		p.aggregate = true
		return expr{eval: func(v *env) value { return intValue(int64(len(v.group))) }}
	case "VALUES":
		n := p.scope.insert.index(p.word())
		if n < 0 {
			p.fail(fmt.Errorf("VALUES of no column"))
		}
		p.want(")")
		return expr{eval: func(v *env) value { return v.next[n] }}
	case "TIMESTAMPDIFF":
		p.want("MICROSECOND")
		p.want(",")
	}
	var args []expr
	var deps uint32
	for {
		e := p.expr()
		args, deps = append(args, e), deps|e.deps
		if name == "CAST" {
			p.want("AS")
			p.want("SIGNED")
		}
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	f, ok := functions[name]
	switch {
	case name == "MIN" && len(args) == 1:
		p.aggregate = true
		return expr{deps: deps, eval: func(v *env) value { return least(v, args[0]) }}
	case !ok || f.args != len(args) && f.args != 0:
		p.fail(fmt.Errorf("there is no function %s of %d arguments", name, len(args)))
		return constant(value{})
	}
	return expr{deps: deps, eval: func(v *env) value {
		values := make([]value, len(args))
		for i, a := range args {
			values[i] = a.eval(v)
		}
		return f.call(values)
	}}
}

func least(v *env, e expr) value {
	var out value
	rows := v.rows
	for _, v.rows = range v.group {
		x := e.eval(v)
		if c, ok := compare(x, out); out.kind == null || ok && c < 0 {
			out = x
		}
	}
	v.rows = rows
	return out
}

var functions = map[string]struct {
	args int // 0 for any number
	call func([]value) value
}{
	"CAST":        {1, func(a []value) value { return asInteger(a[0]) }},
	"MICROSECOND": {1, func(a []value) value { return intValue(a[0].i % second) }},
	"CRC32":       {1, func(a []value) value { return intValue(int64(crc32.ChecksumIEEE([]byte(a[0].s)))) }},
	"TIMESTAMPDIFF": {2, func(a []value) value {
		from, to := a[0].asMoment(), a[1].asMoment()
		if from.kind == null || to.kind == null {
			return value{}
		}
		return intValue(to.i - from.i)
	}},
	"IF": {3, func(a []value) value {
		if a[0].isTrue() {
			return a[1]
		}
		return a[2]
	}},
	"COALESCE": {0, func(a []value) value {
		for _, v := range a {
			if v.kind != null {
				return v
			}
		}
		return value{}
	}},
	"GREATEST": {0, func(a []value) value {
		out := a[0].asMoment()
		for _, v := range a[1:] {
			if c, ok := compare(v, out); ok && c > 0 {
				out = v
			}
		}
		return out
	}},
	"CONCAT": {0, func(a []value) value {
		var b strings.Builder
		for _, v := range a {
			b.WriteString(v.s)
		}
		return textValue(b.String())
	}},
}

func asInteger(v value) value {
	if v.kind == null {
		return v
	}
	return intValue(v.i)
}
