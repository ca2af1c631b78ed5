package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

var (
	integerText = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	decimalText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// longestDecimal is in characters: more digits than any database keeps.
const longestDecimal = 80

// fieldDefault reads the value that an upcast gives a field.
func (c *checker) fieldDefault(e entry, f *Field, what string, payload bool) {
	switch {
	case !payload:
		c.problem(e.key, "misplaced-default", "a default of "+what+" would never be used: upcasts fill the fields of events, not those inside a type", "remove it")
	case f.Optional:
		c.problem(e.key, "contradiction", what+" is optional and has a default", "remove the default: what is absent stays absent")
	case f.Type == nil: // reported
	default:
		// Noted whether it is good or not, so that nothing is said of a field without one.
		f.Default = &Default{JSON: c.defaultJSON(e.val, f.Type, "the default of "+what), Pos: e.val.pos}
	}
}

// defaultJSON is a default as it is encoded, empty when it was refused.
func (c *checker) defaultJSON(n *node, t *Type, what string) string {
	switch t.Kind {
	case KindList, KindMap:
		return c.emptyDefault(n, t, what)
	case KindBool:
		if n.kind == kindScalar && n.plain && (n.text == "true" || n.text == "false") {
			return n.text
		}
		return c.badDefault(n, what, "write true or false, without quotes")
	case KindInt32, KindInt64, KindFloat64:
		return c.numberDefault(n, t.Kind, what)
	case KindString, KindDecimal, KindEnum:
		return c.textDefault(n, t, what)
	case KindStruct, KindUUID, KindTimestamp, KindDate, KindDuration, KindBytes, KindJSON:
	}
	c.problem(n, "bad-default", fmt.Sprintf("%s: a %s has no default here", what, t), "write upcast: manual for the version, and fill it in Go")
	return ""
}

func (c *checker) badDefault(n *node, what, hint string) string {
	if n.kind != kindBad {
		c.problem(n, "bad-default", fmt.Sprintf("%s cannot be %s", what, n.describe()), hint)
	}
	return ""
}

func (c *checker) emptyDefault(n *node, t *Type, what string) string {
	switch {
	case t.Kind == KindList && n.kind == kindList && len(n.items) == 0:
		return "[]"
	case t.Kind == KindMap && n.kind == kindMapping && len(n.entries) == 0:
		return "{}"
	case t.Kind == KindList:
		return c.badDefault(n, what, "write default: [], or fill the list in Go with upcast: manual")
	default:
		return c.badDefault(n, what, "write default: {}, or fill the map in Go with upcast: manual")
	}
}

func (c *checker) numberDefault(n *node, kind Kind, what string) string {
	if n.kind != kindScalar || !n.plain {
		return c.badDefault(n, what, "write a number, without quotes")
	}
	var err error
	switch kind {
	case KindInt32:
		_, err = strconv.ParseInt(n.text, 10, 32)
	case KindInt64:
		_, err = strconv.ParseInt(n.text, 10, 64)
	default:
		if _, err = strconv.ParseFloat(n.text, 64); err == nil && decimalText.MatchString(n.text) && n.text != "-0" {
			return n.text
		}
		return c.badDefault(n, what, "write a number such as 0 or 1.5")
	}
	if err != nil || !integerText.MatchString(n.text) {
		return c.badDefault(n, what, fmt.Sprintf("write a whole number that fits in %s", kind))
	}
	return n.text
}

func (c *checker) textDefault(n *node, t *Type, what string) string {
	if c.isUnquotedNumber(n, what) {
		return ""
	}
	if t.Kind == KindString && n.kind == kindScalar && n.text == "" {
		return `""`
	}
	text, ok := c.scalar(n, what)
	if !ok {
		return ""
	}
	switch {
	case t.Kind == KindDecimal && (!decimalText.MatchString(text) || len(text) > longestDecimal):
		return c.badDefault(n, what, `write digits in quotes, such as "0.00"`)
	case t.Kind == KindEnum && !slices.ContainsFunc(t.Named.Enum, func(v EnumValue) bool { return v.Name.Text == text }):
		var values []string
		for _, v := range t.Named.Enum {
			values = append(values, v.Name.Text)
		}
		return c.badDefault(n, what, c.didYouMean(text, values))
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return c.badDefault(n, what, "")
	}
	return string(quoted)
}
