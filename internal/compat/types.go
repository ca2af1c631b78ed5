package compat

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// typePair is a struct or an enum as it was and as it is.
type typePair struct{ was, is *spec.Named }

// typeFindings is what was said of a pair: once, however many fields hold it.
type typeFindings struct {
	from, to int            // in the problems
	uses     []diag.Related // the other fields
}

// mostUses is how many other fields a finding names.
const mostUses = 5

func (c *comparison) namedType(w where, name string, was *spec.Named, is *spec.Type) {
	pair := typePair{was, is.Named}
	if said := c.types[pair]; said != nil {
		said.uses = append(said.uses, diag.Related{Pos: is.Pos, Message: w.field(name) + " has the same type"})
		return
	}
	said := &typeFindings{from: len(c.problems), to: len(c.problems)}
	c.types[pair] = said // before its fields are: a struct may hold itself
	c.pairs = append(c.pairs, pair)
	if is.Kind == spec.KindEnum {
		c.enum(w, name, was, is.Named)
	} else {
		c.fields(w.inside(name+"."), was.Fields, is.Named.Fields, is.Named.Pos)
	}
	said.to = len(c.problems)
}

func (c *comparison) enum(w where, name string, was, is *spec.Named) {
	var values []spec.Name
	for _, v := range is.Enum {
		values = append(values, v.Name)
	}
	for _, v := range was.Enum {
		if named(values, v.Name.Text) == nil {
			c.finding(EnumValueRemoved, is.Pos, v.Name.Pos, fmt.Sprintf("%s no longer knows the value %q, which messages that wait may have", w.field(name), v.Name.Text), w.frozen())
		}
	}
}

// addUses names the other fields of a type in what was found of it.
func (c *comparison) addUses() {
	for _, pair := range c.pairs {
		said := c.types[pair]
		uses := said.uses
		if more := len(uses) - mostUses; more > 0 {
			uses = append(uses[:mostUses:mostUses], diag.Related{Pos: uses[mostUses].Pos, Message: fmt.Sprintf("and %d more from here on", more)})
		}
		for i := said.from; i < said.to; i++ {
			c.problems[i].Related = append(c.problems[i].Related, uses...)
		}
	}
}
