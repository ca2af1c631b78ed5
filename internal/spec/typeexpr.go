package spec

import (
	"fmt"
	"slices"
	"strings"
)

func scalars() []Kind {
	return []Kind{
		KindString, KindBool, KindInt32, KindInt64, KindFloat64, KindDecimal,
		KindUUID, KindTimestamp, KindDate, KindDuration, KindBytes, KindJSON,
	}
}

// longestType is in bytes: five maps around the longest name stay below it.
const longestType = 100

// typeNesting caps list<list<...>>: deeper is a slip, and a named type reads better.
const typeNesting = 6

// typeOf reads n as a type: a scalar, list<T>, map<T> or a named type. field
// is the name it is for, used in hints; it may be empty.
func (c *checker) typeOf(n *node, field string) *Type {
	if n.kind == kindList {
		hint := "write list<T>"
		if len(n.items) == 1 && n.items[0].kind == kindScalar {
			hint = "write list<" + example(n.items[0].text) + ">"
		}
		c.problem(n, "type-brackets", "a type can't be a YAML list", hint)
		return nil
	}
	what := "the type"
	if field != "" {
		what = "the type of " + quote(field)
	}
	text, ok := c.scalar(n, what)
	if !ok {
		return nil
	}
	if len(text) > longestType {
		c.problem(n, "bad-type", fmt.Sprintf("%s is longer than any type: %d characters", what, len(text)), "give the inner parts names under types:")
		return nil
	}
	return c.typeText(n, strings.TrimSpace(text), field, typeNesting)
}

func (c *checker) typeText(n *node, text, field string, depth int) *Type {
	if depth == 0 {
		c.problem(n, "too-deep", fmt.Sprintf("lists and maps are nested more than %d deep", typeNesting-1), "give the inner part a name under types:")
		return nil
	}
	if message, hint := foreignShape(text, field); message != "" {
		c.problem(n, "bad-type", message, hint)
		return nil
	}
	head, inner, composite := cutAngles(text)
	if !composite {
		return c.simpleType(n, text)
	}
	kind := Kind(head)
	if kind != KindList && kind != KindMap {
		c.problem(n, "unknown-type", fmt.Sprintf("unknown type %s", quote(head+"<…>")), compositeHint(head, inner))
		return nil
	}
	if kind == KindMap {
		if key, value, two := cutTop(inner); two {
			c.problem(n, "map-key-type", fmt.Sprintf("%s: a map's keys are always strings, and only the values' type is written", quote(text)),
				mapHint(key, value))
			return nil
		}
	}
	if inner == "" {
		c.problem(n, "bad-type", fmt.Sprintf("%s lacks the type of its elements", quote(text)), "write "+head+"<string>")
		return nil
	}
	if strings.HasSuffix(inner, "?") {
		c.problem(n, "optional-element", fmt.Sprintf("%s: the elements of a %s can't be optional", quote(text), head), "leave absent ones out, or use a struct with an optional field")
		return nil
	}
	elem := c.typeText(n, inner, "", depth-1)
	if elem == nil {
		return nil
	}
	return &Type{Kind: kind, Elem: elem, Pos: n.pos}
}

func mapHint(key, value string) string {
	if key == "string" {
		return "write map<" + value + ">"
	}
	return fmt.Sprintf("write map<%s>, or a list of a struct that holds the %s key", value, key)
}

// cutAngles takes list<T> apart. The brackets must match and end the text.
func cutAngles(text string) (head, inner string, ok bool) {
	at := strings.IndexByte(text, '<')
	if at < 0 || !strings.HasSuffix(text, ">") {
		return "", "", false
	}
	return strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1 : len(text)-1]), true
}

// cutTop cuts at a comma that is in no inner pair of angle brackets.
func cutTop(text string) (before, after string, ok bool) {
	depth := 0
	for i, r := range text {
		switch r {
		case '<':
			depth++
		case '>':
			depth--
		case ',':
			if depth == 0 {
				return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:]), true
			}
		}
	}
	return text, "", false
}

// simpleType is a scalar or a name from types:.
func (c *checker) simpleType(n *node, text string) *Type {
	if slices.Contains(scalars(), Kind(text)) {
		return &Type{Kind: Kind(text), Go: c.model.Go.Types[Kind(text)], Pos: n.pos}
	}
	if named := c.types[text]; named != nil {
		kind := KindStruct
		if named.isEnum() {
			kind = KindEnum
		}
		return &Type{Kind: kind, Named: named, Go: named.Go, Pos: n.pos}
	}
	hint := otherTypeSystems(text)
	if hint == "" {
		hint = c.didYouMean(text, c.typeNames())
	}
	if hint == "" && typeName.pattern.MatchString(text) {
		hint = "declare it under types:"
	}
	c.problem(n, "unknown-type", "unknown type "+quote(text), hint)
	return nil
}

func (c *checker) typeNames() []string {
	if !c.isSuggesting() {
		return nil
	}
	var names []string
	for _, k := range scalars() {
		names = append(names, string(k))
	}
	for _, t := range c.model.Types {
		names = append(names, t.Name.Text)
	}
	return names
}

// foreignShape recognises types written the way another language writes them.
func foreignShape(text, field string) (message, hint string) {
	switch {
	case strings.HasSuffix(text, "?"):
		base := strings.TrimRight(text, "?")
		if field == "" {
			field = "name"
		}
		return fmt.Sprintf("%s is not a type: the question mark belongs to the field's name", quote(text)),
			fmt.Sprintf("write %s?: %s", example(field), base)
	case strings.HasPrefix(text, "[]"):
		return quote(text) + " is not a type", "write list<" + strings.TrimSpace(text[2:]) + ">"
	case strings.HasSuffix(text, "[]"):
		return quote(text) + " is not a type", "write list<" + strings.TrimSpace(text[:len(text)-2]) + ">"
	case strings.HasPrefix(text, "map["):
		if _, value, ok := strings.Cut(text, "]"); ok && value != "" {
			return quote(text) + " is not a type", "write map<" + strings.TrimSpace(value) + ">; a map's keys are always strings"
		}
		return quote(text) + " is not a type", "write map<" + strings.TrimSuffix(text[4:], "]") + ">; types take angle brackets"
	case strings.ContainsAny(text, "[]"):
		_, inner, _ := strings.Cut(text, "[")
		return quote(text) + " is not a type: types take angle brackets", "write list<" + strings.Trim(inner, "[] ") + ">"
	case strings.HasPrefix(text, "*"):
		return quote(text) + " is not a type: there are no pointers", "make the field optional with name?"
	case strings.HasSuffix(text, ")") && strings.Contains(text, "("):
		base, _, _ := strings.Cut(text, "(")
		return quote(text) + " is not a type: types have no size", "write " + base + " without the parentheses"
	case strings.Contains(text, "|"):
		return quote(text) + " is not a type: there are no unions", "use name?: for optional, or a struct with several optional fields"
	case strings.Count(text, "<") != strings.Count(text, ">") || !strings.HasSuffix(text, ">") && strings.Contains(text, "<"):
		return quote(text) + " is not a type: the angle brackets do not match", "write list<T> or map<T>"
	}
	return "", ""
}

func compositeHint(head, inner string) string {
	switch strings.ToLower(head) {
	case "list", "array", "slice", "set", "repeated", "sequence":
		return "write list<" + inner + ">"
	case "map", "dict", "record", "object", "hash":
		if _, value, two := cutTop(inner); two {
			inner = value
		}
		return "write map<" + inner + ">"
	case "optional", "option", "nullable", "maybe":
		return "write name?: " + inner
	}
	return "the composites are list<T> and map<T>"
}

// otherTypeSystems says what a type of Go, SQL, JSON Schema or Protocol
// Buffers is called here.
func otherTypeSystems(text string) string {
	switch strings.ToLower(text) {
	case "int", "integer", "number", "uint", "uint32", "int16", "int8", "uint16", "uint8", "smallint", "tinyint", "short", "byte", "sint32":
		return "write int32 or int64"
	case "long", "bigint", "uint64", "sint64":
		return "write int64"
	case "float", "double", "float32", "real":
		return "write float64, or decimal for an exact amount"
	case "numeric", "money", "bigdecimal":
		return "write decimal"
	case "datetime", "date-time", "time", "timestamptz", "instant", "time.time":
		return "write timestamp"
	case "boolean":
		return "write bool"
	case "text", "varchar", "char", "str", "uri", "url", "email":
		return "write string"
	case "guid":
		return "write uuid"
	case "binary", "blob", "[]byte", "bytea":
		return "write bytes"
	case "interval", "time.duration":
		return "write duration"
	case "any", "object", "interface", "unknown", "mixed":
		return "write json for free JSON, or give the fields with fields:"
	case "array", "list", "slice", "set", "repeated":
		return "write list<T> with the elements' type"
	case "map", "dict", "dictionary", "hash", "record":
		return "write map<T> with the values' type"
	case "enum":
		return "write { enum: [a, b] }"
	case "struct", "message":
		return "give the fields with fields:, or declare a type under types:"
	case "null", "none", "void":
		return "an optional field is written name?: type"
	}
	return ""
}
