package spec

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// convert turns the YAML library's tree into ours and reports what the
// grammar leaves out of YAML. Aliases are never followed: 400 bytes of nested
// aliases would stand for 50 million nodes.
func (c *checker) convert(y *yaml.Node, depth int) *node {
	n := &node{pos: c.runeColumn(y.Line, y.Column)}
	n.end = n.pos
	if depth > maxDepth {
		if c.tooDeep {
			return n // said once is enough
		}
		c.tooDeep = true
		c.problem(n, "too-deep", fmt.Sprintf("nested more than %d levels deep", maxDepth), "give the inner parts a name under types:")
		return n
	}
	if !c.isPlainYAML(y, n) {
		return n
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return c.convert(y.Content[0], depth)
	case yaml.ScalarNode:
		c.convertScalar(y, n)
	case yaml.SequenceNode:
		n.kind = kindList
		n.flow = y.Style&yaml.FlowStyle != 0
		for _, item := range y.Content {
			n.items = append(n.items, c.convert(item, depth+1))
		}
	case yaml.MappingNode:
		n.kind = kindMapping
		n.flow = y.Style&yaml.FlowStyle != 0
		c.convertMapping(y, n, depth)
	}
	return n
}

// isPlainYAML reports anchors, aliases and tags.
func (c *checker) isPlainYAML(y *yaml.Node, n *node) bool {
	switch {
	case y.Kind == yaml.AliasNode:
		c.problem(n, "yaml-alias", fmt.Sprintf("the alias %s is not allowed here", quote("*"+y.Value)), "write the value out, or give it a name under types:")
	case y.Anchor != "":
		c.problem(n, "yaml-anchor", fmt.Sprintf("the anchor %s is not allowed here", quote("&"+y.Anchor)), "remove it; what is used twice gets a name under types:")
	case y.Style&yaml.TaggedStyle != 0:
		c.problem(n, "yaml-tag", "a tag is not allowed here", "remove the word that begins with an exclamation mark; quote a text to make it a string")
	default:
		return true
	}
	return false
}

func (c *checker) convertScalar(y *yaml.Node, n *node) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	n.kind = kindScalar
	n.text = y.Value
	n.plain = y.Style&quoted == 0
	if n.plain && isNull(y.Value) {
		n.kind = kindNull
	}
	n.end = c.endOf(n.pos, y.Value)
}

func isNull(s string) bool {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// endOf finds the end of a scalar that stands in the file as it is read, with
// or without quotes. Others, with escapes or over several lines, end where
// they begin.
func (c *checker) endOf(pos diag.Pos, value string) diag.Pos {
	end := pos
	rest := c.text[c.offset(pos):]
	rest = rest[:min(len(rest), len(value)+2)]
	switch {
	case len(rest) == 0 || strings.Contains(value, "\n"):
	case bytes.HasPrefix(rest, []byte(value)):
		end.Col += len(value)
	case rest[0] == '"' && string(rest) == `"`+value+`"`, rest[0] == '\'' && string(rest) == `'`+value+`'`:
		end.Col += len(rest)
	}
	return end
}

func (c *checker) convertMapping(y *yaml.Node, n *node, depth int) {
	first := map[string]*node{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := c.convert(y.Content[i], depth+1)
		val := c.convert(y.Content[i+1], depth+1)
		switch {
		case key.kind == kindBad: // reported
		case key.kind == kindNull && key.text != "":
			key.kind = kindScalar // a field may be called null: names are checked later
			fallthrough
		case key.kind == kindScalar:
			if key.plain && key.text == "<<" {
				c.problem(key, "yaml-merge", "the merge key << is not allowed", "write the keys out, or give the shared part a name under types:")
				continue
			}
			if c.isSplitMapType(n, key, val) {
				continue
			}
			if before := first[key.text]; before != nil {
				c.problem(key, "duplicate-key", fmt.Sprintf("the key %s appears twice", quote(key.text)), "remove or rename one of them",
					diag.Related{Pos: before.pos, Message: "first declared here"})
				continue
			}
			first[key.text] = key
			n.entries = append(n.entries, entry{key, val})
		default:
			c.problem(key, "bad-key", fmt.Sprintf("a key must be a word, found %s", key.describe()), "")
		}
	}
}

// isSplitMapType recognises { labels: map<string,string> }. Between braces
// the comma ends the value, so that YAML silently reads the value
// "map<string" and a second key "string>" without a value.
func (c *checker) isSplitMapType(n, key, val *node) bool {
	if !n.flow || val.kind != kindNull || !strings.HasSuffix(key.text, ">") || len(n.entries) == 0 {
		return false
	}
	before := n.entries[len(n.entries)-1].val
	if before.kind != kindScalar || strings.Count(before.text, "<") <= strings.Count(before.text, ">") {
		return false
	}
	c.problem(before, "map-key-type",
		fmt.Sprintf("%s: a map's keys are always strings, and only the values' type is written", quote(before.text+", "+key.text)),
		"write map<"+example(strings.TrimSpace(strings.TrimSuffix(key.text, ">")))+">")
	before.kind = kindBad
	return true
}
