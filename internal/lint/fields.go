package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// structure looks at the fields of an event, a type or a struct that is declared in a
// field. roles are fields whose meaning is given elsewhere: the aggregate's.
func (l *linter) structure(owner subject, at spec.Name, fields []*spec.Field, roles []*spec.Field) {
	var zeroes []string
	for _, f := range fields {
		about := owner.field(f.Name.Text)
		if f.Deprecated == "" {
			l.fieldName(about, f)
			if !slices.Contains(roles, f) && isZeroOpen(f) && !l.ignores("zero-meaning", about) {
				zeroes = append(zeroes, f.Name.Text)
			}
		}
		if n := leaf(f.Type).Named; n != nil && n.Inline && !l.seen[n] {
			l.seen[n] = true
			l.structure(about, f.Name, n.Fields, nil)
		}
	}
	if len(zeroes) > 0 {
		l.report("zero-meaning", owner, at, fmt.Sprintf("nothing says what zero means in the required fields of %q: %s", strings.Join(owner, "."), strings.Join(zeroes, ", ")),
			`give each a doc that does, such as { type: int32, doc: 1 or more. }, or make it optional`)
	}
}

// isZeroOpen reports a required field that may hold a zero which nobody meant.
func isZeroOpen(f *spec.Field) bool {
	if f.Optional || f.Doc != "" || isID(f.Name.Text) {
		return false
	}
	switch f.Type.Kind {
	case spec.KindString, spec.KindBool, spec.KindInt32, spec.KindInt64, spec.KindFloat64, spec.KindDecimal:
		return true
	}
	return false
}

func isID(name string) bool { return name == "id" || strings.HasSuffix(name, "_id") }

// leaf is what a list or map is of.
func leaf(t *spec.Type) *spec.Type {
	for t.Elem != nil {
		t = t.Elem
	}
	return t
}

func (l *linter) fieldName(about subject, f *spec.Field) {
	name := f.Name.Text
	if vague[name] {
		l.report("field-name-vague", about, f.Name, fmt.Sprintf("the field name %q says nothing", name), "name it after what it holds")
	}
	switch leaf(f.Type).Kind {
	case spec.KindBool:
		if positive, negated := negation(name); negated {
			l.report("field-name-negated", about, f.Name, fmt.Sprintf("the name of the boolean %q is a negation", name),
				fmt.Sprintf("name what is the case, as in %q, and turn the value round", positive))
		}
	case spec.KindTimestamp:
		if !strings.HasSuffix(name, "_at") {
			l.report("time-field-name", about, f.Name, fmt.Sprintf("the name of the timestamp %q doesn't end in _at", name), "name it like accepted_at")
		}
	case spec.KindDate:
		if stem, is := strings.CutSuffix(name, "_at"); is {
			l.report("time-field-name", about, f.Name, fmt.Sprintf("the date %q is named like a point in time", name), fmt.Sprintf("name it like %q", stem+"_date"))
		}
	case spec.KindFloat64:
		if isMoney(name) {
			l.report("money-as-float", about, f.Name, fmt.Sprintf("%q sounds like an amount of money, and a float64 can't hold 0.1", name), "make it a decimal")
		}
	}
}

var vague = words(`data info information value values payload misc miscellaneous tmp temp stuff thing things object obj
	extra extras other others blob flag flags foo bar val var`)

// negation returns what a boolean could be called without its negation.
func negation(name string) (positive string, negated bool) {
	for _, p := range []struct{ negative, positive string }{
		{"is_not_", "is_"}, {"isnt_", "is_"}, {"has_no_", "has_"}, {"has_not_", "has_"}, {"was_not_", "was_"},
		{"not_", ""}, {"no_", "has_"}, {"non_", ""}, {"without_", "has_"}, {"dont_", ""},
	} {
		if rest, is := strings.CutPrefix(name, p.negative); is && rest != "" {
			return p.positive + rest, true
		}
	}
	if rest, is := strings.CutSuffix(name, "disabled"); is && (rest == "" || strings.HasSuffix(rest, "_")) {
		return rest + "enabled", true
	}
	return "", false
}

// isMoney reports a name whose last word, currency and the like aside, is an amount.
func isMoney(name string) bool {
	parts := strings.Split(name, "_")
	for len(parts) > 1 && moneyUnits[parts[len(parts)-1]] {
		parts = parts[:len(parts)-1]
	}
	last := parts[len(parts)-1]
	return money[last] || money[strings.TrimSuffix(last, "s")]
}

var (
	money      = words("price amount total subtotal fee cost tax vat discount charge refund balance deposit payment revenue salary wage surcharge tip")
	moneyUnits = words("usd eur cny gbp jpy chf cents gross net min max incl excl")
)
