package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

func (c *checker) ignoredNames(e entry, ignore *LintIgnore, names map[string][]string) {
	what := "lint.ignore of " + e.key.text
	if e.val.kind == kindScalar && e.val.text == "all" {
		ignore.All = true
		return
	}
	rule, _ := rules.Find(e.key.text) // it is one: see isLintRule
	if len(rule.About) == 0 {
		c.problem(e.val, "unknown-value", fmt.Sprintf("%s can only be all", what), "write "+e.key.text+": all")
		return
	}
	var possible []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if isNameable(rule, names[name]) {
			possible = append(possible, name)
		}
	}
	first := map[string]diag.Pos{}
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
		if abouts := names[text]; len(abouts) > 0 && !isNameable(rule, abouts) {
			c.problem(item, "unknown-name", fmt.Sprintf("%s can't name %s: its findings are about %s", what, quote(text), strings.Join(rule.About, ", ")),
				cmp.Or(c.didYouMean(text, possible), "remove the name"))
			continue
		}
		if len(names[text]) == 0 {
			c.problem(item, "unknown-name", fmt.Sprintf("%s names %s, which is not declared", what, quote(text)),
				cmp.Or(c.didYouMean(text, possible), "name an event, a consumer, a type or one of their fields, as in order.accepted.note"))
			continue
		}
		ignore.Names = append(ignore.Names, Name{text, item.pos})
	}
}

// lintNames are the names of all that lint may have a finding about, each with what it
// is the name of.
func (c *checker) lintNames() map[string][]string {
	names := map[string][]string{}
	note := func(name, about string) { names[name] = append(names[name], about) }
	for _, t := range c.model.Types {
		note(t.Name.Text, rules.AboutTypes)
		noteFields(note, t.Name.Text, t.Fields)
	}
	for _, ev := range c.model.Events {
		note(ev.Name.Text, rules.AboutEvents)
		for _, v := range ev.Versions {
			noteFields(note, ev.Name.Text, v.Fields)
		}
	}
	for _, con := range c.model.Consumers {
		note(con.Name.Text, rules.AboutConsumers)
	}
	return names
}

// noteFields gives a field its owner's name and a dot before its own, down into structs
// that are declared in a field.
func noteFields(note func(name, about string), owner string, fields []*Field) {
	for _, f := range fields {
		name := owner + "." + f.Name.Text
		note(name, rules.AboutFields)
		if f.Type != nil && f.Type.Innermost().Named != nil && f.Type.Innermost().Named.Inline {
			noteFields(note, name, f.Type.Innermost().Named.Fields)
		}
	}
}

// isNameable reports a name that the rule may have a finding about.
func isNameable(rule rules.Rule, abouts []string) bool {
	return slices.ContainsFunc(abouts, func(about string) bool { return slices.Contains(rule.About, about) })
}
