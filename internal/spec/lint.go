package spec

import (
	"cmp"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/rules"
)

// readLint reads which findings of outboxgen lint are meant to be so. It comes
// last, as it names everything else.
func (c *checker) readLint(top object) {
	e, ok := top.vals["lint"]
	if !ok {
		return
	}
	o, ok := c.object(e.key, e.val, "lint", "ignore")
	if !ok {
		return
	}
	n := c.optional(o, "ignore")
	if n == nil || !c.isMapping(o.vals["ignore"].key, n, "lint.ignore") {
		return
	}
	known := rules.IDs(rules.KindLint)
	names := c.lintNames()
	for _, ie := range n.entries {
		if !c.isLintRule(ie.key, known) {
			continue
		}
		ignore := LintIgnore{Rule: Name{ie.key.text, ie.key.pos}}
		c.ignoredNames(ie, &ignore, names)
		c.model.Lint.Ignore = append(c.model.Lint.Ignore, ignore)
	}
}

func (c *checker) isLintRule(key *node, known []string) bool {
	r, ok := rules.Find(key.text)
	if ok && r.Kind == rules.KindLint {
		return true
	}
	message, hint := fmt.Sprintf("unknown rule %s in lint.ignore", quote(key.text)), c.didYouMean(key.text, known)
	if ok {
		message = fmt.Sprintf("the rule %s can't be ignored", quote(key.text))
		hint = "only rules of outboxgen lint are advice; what the others report has to be repaired"
	}
	c.problem(key, "unknown-rule", message, cmp.Or(hint, "outboxgen explain lists the rules"))
	return false
}

func (c *checker) ignoredNames(e entry, ignore *LintIgnore, names []string) {
	what := "lint.ignore of " + e.key.text
	if e.val.kind == kindScalar && e.val.text == "all" {
		ignore.All = true
		return
	}
	first := map[string]diag.Pos{}
	exists := map[string]bool{}
	for _, name := range names {
		exists[name] = true
	}
	for _, item := range c.listOrOne(e.val, what, "all, or a list of names, as [order.accepted, Money.amount]") {
		text, ok := c.scalar(item, "a name in "+what)
		if !ok {
			continue
		}
		if pos, twice := first[text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the name %s appears twice in %s", quote(text), what), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[text] = item.pos
		if !exists[text] {
			c.problem(item, "unknown-name", fmt.Sprintf("%s names %s, which is not declared", what, quote(text)),
				cmp.Or(c.didYouMean(text, names), "name an event, a consumer, a type or one of their fields, as in order.accepted.note"))
			continue
		}
		ignore.Names = append(ignore.Names, Name{text, item.pos})
	}
}

// lintNames are the names of all that lint may have a finding about.
func (c *checker) lintNames() []string {
	var names []string
	for _, t := range c.model.Types {
		names = append(names, t.Name.Text)
		names = appendFieldNames(names, t.Name.Text, t.Fields)
	}
	for _, ev := range c.model.Events {
		names = append(names, ev.Name.Text)
		for _, v := range ev.Versions {
			names = appendFieldNames(names, ev.Name.Text, v.Fields)
		}
	}
	for _, con := range c.model.Consumers {
		names = append(names, con.Name.Text)
	}
	return names
}

// appendFieldNames gives a field its owner's name and a dot before its own, down
// into structs that are declared in a field.
func appendFieldNames(names []string, owner string, fields []*Field) []string {
	for _, f := range fields {
		name := owner + "." + f.Name.Text
		names = append(names, name)
		if f.Type != nil && f.Type.Named != nil && f.Type.Named.Inline {
			names = appendFieldNames(names, name, f.Type.Named.Fields)
		}
	}
	return names
}
