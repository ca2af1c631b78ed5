package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// node is a part of the file as the checks see it: plain scalars, lists and
// mappings with unique string keys. Whatever else YAML offers has been
// reported and left out, or stands here as kindBad, over which every check
// passes in silence.
type node struct {
	kind    nodeKind
	text    string // of a scalar
	plain   bool   // a scalar without quotes
	flow    bool   // written with { } or [ ]
	items   []*node
	entries []entry
	pos     diag.Pos
	end     diag.Pos
}

type nodeKind int

const (
	kindBad nodeKind = iota
	kindNull
	kindScalar
	kindList
	kindMapping
)

type entry struct {
	key *node // always a scalar
	val *node
}

// describe says what stands there, for "found ...".
func (n *node) describe() string {
	switch n.kind {
	case kindNull:
		return "nothing"
	case kindScalar:
		return quote(n.text)
	case kindList:
		return "a list"
	case kindMapping:
		return "a mapping"
	default:
		return "something else"
	}
}

// quote shows text of the file in a message: escaped, and cut when long.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// example shows text of the file inside a hint, as it could be written; what
// could not be written so becomes T.
func example(s string) string {
	if len(s) > 60 || strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' }) {
		return "T"
	}
	return s
}

// object is a mapping whose keys are from a fixed set.
type object struct {
	at   *node // where to report what is missing: the key that holds the mapping
	what string
	vals map[string]entry
}

// has reports whether the key is there, whatever its value.
func (o object) has(key string) bool {
	_, ok := o.vals[key]
	return ok
}

// object reads n as a mapping with the given keys and reports any other key.
// It is false when n is no mapping at all.
func (c *checker) object(at, n *node, what string, keys ...string) (object, bool) {
	o := object{at: at, what: what, vals: map[string]entry{}}
	if !c.isMapping(at, n, what) {
		return o, false
	}
	for _, e := range n.entries {
		if slices.Contains(keys, e.key.text) {
			o.vals[e.key.text] = e
			continue
		}
		if n.flow && e.val.kind == kindNull && e.val.text == "" {
			c.problem(e.key, "unquoted-comma", fmt.Sprintf("%s in %s is read as a key of its own", quote(e.key.text), what),
				"between braces, put a text that holds a comma in quotes")
			continue
		}
		c.unknownKey(e.key, what, keys)
	}
	return o, true
}

func (c *checker) isMapping(at, n *node, what string) bool {
	switch n.kind {
	case kindMapping:
		return true
	case kindBad:
	case kindNull:
		c.problem(at, "empty-value", what+" is empty", "give it its keys on indented lines below, or remove it")
	default:
		c.problem(n, "wrong-shape", fmt.Sprintf("%s must be a mapping of keys to values, found %s", what, n.describe()), "")
	}
	return false
}

func (c *checker) unknownKey(key *node, what string, keys []string) {
	hint := c.didYouMean(key.text, keys)
	if hint == "" {
		hint = "the keys here are " + strings.Join(keys, ", ")
	}
	c.problem(key, "unknown-key", fmt.Sprintf("unknown key %s in %s", quote(key.text), what), hint)
}

// required returns the value of a key and reports a missing one.
func (c *checker) required(o object, key string) *node {
	e, ok := o.vals[key]
	if !ok {
		c.problem(o.at, "missing-key", fmt.Sprintf("%s lacks the key %q", o.what, key), "")
		return nil
	}
	return e.val
}

// optional returns the value of a key, or nil.
func (c *checker) optional(o object, key string) *node {
	if e, ok := o.vals[key]; ok {
		return e.val
	}
	return nil
}

// list returns the items of n and reports anything but a list with an item.
func (c *checker) list(n *node, what, example string) []*node {
	switch n.kind {
	case kindBad:
	case kindNull:
		c.problem(n, "empty-value", what+" is empty", "write "+example)
	case kindList:
		if len(n.items) == 0 {
			c.problem(n, "empty-value", what+" is empty", "write "+example)
		}
		return n.items
	default:
		c.problem(n, "wrong-shape", fmt.Sprintf("%s must be a list, found %s", what, n.describe()), "write "+example)
	}
	return nil
}

// listOrOne is list, for keys that also take a single text.
func (c *checker) listOrOne(n *node, what, example string) []*node {
	if n.kind == kindScalar {
		return []*node{n}
	}
	return c.list(n, what, example)
}

// scalar returns n's text and reports anything but a text on one line.
func (c *checker) scalar(n *node, what string) (string, bool) {
	switch n.kind {
	case kindBad:
		return "", false
	case kindNull:
		if n.text != "" { // an unquoted null or ~
			c.problem(n, "unquoted-null", fmt.Sprintf("%s is %s without quotes, which YAML reads as nothing", what, n.text),
				fmt.Sprintf("write %q in quotes", n.text))
			return "", false
		}
		c.problem(n, "empty-value", what+" is empty", "")
		return "", false
	case kindScalar:
	default:
		c.problem(n, "wrong-shape", fmt.Sprintf("%s must be a text, found %s", what, n.describe()), "")
		return "", false
	}
	if n.plain && isYAML11Bool(n.text) {
		c.problem(n, "unquoted-boolean",
			fmt.Sprintf("%s is %s without quotes, which many YAML readers take for a boolean", what, n.text),
			fmt.Sprintf("write %q in quotes", n.text))
		return "", false
	}
	if strings.TrimSpace(n.text) == "" {
		c.problem(n, "empty-value", what+" is empty", "")
		return "", false
	}
	return n.text, c.noForbidden(n, what, false)
}

// noForbidden reports control characters that came in through an escape such
// as "\x07"; those written as they are were refused with the whole file.
func (c *checker) noForbidden(n *node, what string, lines bool) bool {
	for _, r := range n.text {
		if isForbidden(r) && (r != '\n' || !lines) {
			c.problem(n, "control-character", fmt.Sprintf("%s contains %s", what, describeRune(r)), "remove it")
			return false
		}
	}
	return true
}

// prose returns a doc text: trimmed, its lines kept.
func (c *checker) prose(o object) string {
	n := c.optional(o, "doc")
	if n == nil || n.kind == kindBad {
		return ""
	}
	what := "the doc text of " + o.what
	if n.kind != kindScalar {
		c.problem(n, "wrong-shape", fmt.Sprintf("%s must be a text, found %s", what, n.describe()), "")
		return ""
	}
	if !c.noForbidden(n, what, true) {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(n.text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// deprecated returns the reason given under deprecated:.
func (c *checker) deprecated(o object) string {
	n := c.optional(o, "deprecated")
	if n == nil {
		return ""
	}
	if n.kind == kindScalar && n.plain && isYAML11Bool(n.text) {
		c.problem(n, "wrong-shape", "deprecated takes the reason, not a boolean", "say in words what to use instead")
		return ""
	}
	text, _ := c.scalar(n, "deprecated of "+o.what)
	return strings.TrimSpace(text)
}

// boolean reads true or false.
func (c *checker) boolean(o object, key string) bool {
	n := c.optional(o, key)
	if n == nil || n.kind == kindBad {
		return false
	}
	if n.kind == kindScalar && n.plain {
		switch n.text {
		case "true":
			return true
		case "false":
			return false
		}
	}
	c.problem(n, "not-a-boolean", fmt.Sprintf("%s of %s must be true or false, found %s", key, o.what, n.describe()), "write true or false, without quotes")
	return false
}

// isYAML11Bool reports the words that YAML 1.1 readers (PyYAML, Ruby, the
// editors built on them) take for booleans though YAML 1.2 does not.
func isYAML11Bool(s string) bool {
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO",
		"true", "True", "TRUE", "false", "False", "FALSE",
		"on", "On", "ON", "off", "Off", "OFF":
		return true
	}
	return false
}
