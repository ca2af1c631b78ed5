package compat

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// where is what a field stands in.
type where struct {
	event   *spec.Event
	version *spec.Version
	before  *spec.Version // the same in the base
	path    string        // "total." inside a struct, empty in the payload itself
}

func (w where) String() string {
	return fmt.Sprintf("version %d of %q", w.version.Number, w.event.Name.Text)
}

func (w where) field(name string) string { return fmt.Sprintf("the field %q of %s", w.path+name, w) }

func (w where) inside(step string) where {
	w.path += step
	return w
}

// frozen is how a published version changes: not at all.
func (w where) frozen() string {
	return fmt.Sprintf("version %d is published: put it back, and make the change in version %d", w.version.Number, w.event.Newest().Number+1)
}

// fields compares the fields of a payload or a struct, which is declared at a place of
// the current file.
func (c *comparison) fields(w where, was, is []*spec.Field, declared diag.Pos) {
	var come []string
	for _, f := range is {
		if fieldOf(was, f.Name.Text) != nil {
			continue
		}
		come = append(come, f.Name.Text)
		if !f.Optional {
			c.finding(RequiredFieldAdded, f.Name.Pos, diag.Pos{}, w.field(f.Name.Text)+" is new and required: messages that wait lack it",
				fmt.Sprintf("write %s?, or add it in version %d", f.Name.Text, w.event.Newest().Number+1))
		}
	}
	for _, f := range was {
		now := fieldOf(is, f.Name.Text)
		if now == nil {
			c.finding(FieldRemoved, declared, f.Name.Pos, w.field(f.Name.Text)+" is gone", renamed(f.Name.Text, come, w.frozen()))
			continue
		}
		c.field(w, f, now)
	}
}

func fieldOf(fields []*spec.Field, name string) *spec.Field {
	if i := slices.IndexFunc(fields, func(f *spec.Field) bool { return f.Name.Text == name }); i >= 0 {
		return fields[i]
	}
	return nil
}

func (c *comparison) field(w where, was, is *spec.Field) {
	switch {
	case was.Optional && !is.Optional:
		c.finding(FieldMadeRequired, is.Name.Pos, was.Name.Pos, w.field(is.Name.Text)+" was optional and is required: messages that wait may lack it", w.frozen())
	case !was.Optional && is.Optional:
		c.finding(FieldMadeOptional, is.Name.Pos, was.Name.Pos, w.field(is.Name.Text)+" was required and is optional: deployed consumers would miss it", w.frozen())
	case defaultText(was) != defaultText(is) && w.usesDefault(is.Name.Text):
		c.finding(DefaultChanged, is.Name.Pos, was.Name.Pos,
			fmt.Sprintf("the default of %s was %s and is %s: the same old message would be read as another", w.field(is.Name.Text), defaultText(was), defaultText(is)), w.frozen())
	}
	c.fieldType(w, is.Name.Text, was.Type, is.Type)
}

// usesDefault reports that the default of a field of the payload is in a step which base
// and current have.
func (w where) usesDefault(name string) bool {
	was, is := w.before.Upcast, w.version.Upcast
	return was != nil && is != nil && (fillsIn(was, name) || fillsIn(is, name) && was.From.Number == is.From.Number)
}

// fillsIn reports that a step takes the default of a field.
func fillsIn(up *spec.Upcast, name string) bool {
	return fieldOf(up.Filled, name) != nil ||
		slices.ContainsFunc(up.Copied, func(c *spec.Copy) bool { return c.Default && c.To.Name.Text == name })
}

func defaultText(f *spec.Field) string {
	if f.Default == nil {
		return "none"
	}
	if f.Type.Kind == spec.KindFloat64 { // 1 and 1.0 are one value
		if number, err := strconv.ParseFloat(f.Default.JSON, 64); err == nil {
			return strconv.FormatFloat(number, 'g', -1, 64)
		}
	}
	return f.Default.JSON
}

// fieldType compares what a field, or an element of it, holds. name is the field's,
// with [] or {} for elements of a list or a map.
func (c *comparison) fieldType(w where, name string, was, is *spec.Type) {
	switch {
	case was.Kind != is.Kind:
		c.finding(FieldTypeChanged, is.Pos, was.Pos, fmt.Sprintf("%s was %s and is %s", w.field(name), typeText(was), typeText(is)), w.frozen())
	case was.Kind == spec.KindList:
		c.fieldType(w, name+"[]", was.Elem, is.Elem)
	case was.Kind == spec.KindMap:
		c.fieldType(w, name+"{}", was.Elem, is.Elem)
	case was.Named != nil:
		c.namedType(w, name, was.Named, is)
	}
}

// typeText names a type as the file does, and says what a name stands for.
func typeText(t *spec.Type) string {
	if t.Named != nil && !t.Named.Inline {
		return fmt.Sprintf("%s (%s)", t, t.Kind)
	}
	return t.String()
}
