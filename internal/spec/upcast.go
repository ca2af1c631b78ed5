package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// planUpcast settles how a version is made of the one before: fields of the same
// name and type are taken over, required ones that are new get their default, and
// what is left is for Go code.
func (c *checker) planUpcast(before, v *Version) {
	up := v.Upcast
	if up == nil {
		up = &Upcast{}
		v.Upcast = up
	}
	up.From = before
	if before.Fields == nil || v.Fields == nil {
		return
	}
	var why []string
	for _, to := range v.Fields {
		from := fieldOf(before, to.Name.Text)
		if to.Type == nil || from != nil && from.Type == nil {
			return // reported
		}
		reason := ""
		if from != nil {
			reason = up.copyField(from, to)
		} else if !to.Optional {
			reason = up.fill(to, "is new and required")
		}
		if reason != "" {
			why = append(why, reason)
		}
	}
	if len(why) > 0 && !up.Manual {
		c.problem(&node{pos: v.Pos}, "upcast-needed",
			fmt.Sprintf("version %d can't be made of version %d: %s", v.Number, before.Number, strings.Join(why, "; ")),
			"write upcast: manual, and Go code makes it; or give new fields a default: or a question mark",
			diag.Related{Pos: before.Pos, Message: fmt.Sprintf("version %d is here", before.Number)})
	}
}

// copyField notes a field that both versions have, and says why it can't be taken
// over.
func (up *Upcast) copyField(from, to *Field) string {
	convert := false
	switch {
	case sameShape(from.Type, to.Type, nil):
	case from.Type.Kind == KindEnum && to.Type.Kind == KindEnum && from.Type.Go == nil && to.Type.Go == nil && isWider(to.Type.Named, from.Type.Named):
		convert = true
	default:
		if !to.Optional {
			up.Open = append(up.Open, to)
		}
		return fmt.Sprintf("%s was %s and is %s", quote(to.Name.Text), shapeText(from.Type), shapeText(to.Type))
	}
	fill := from.Optional && !to.Optional
	if fill && to.Default == nil {
		up.Open = append(up.Open, to)
		return quote(to.Name.Text) + " was optional and is required"
	}
	up.Copied = append(up.Copied, &Copy{From: from, To: to, Convert: convert, Default: fill})
	return ""
}

func (up *Upcast) fill(to *Field, why string) string {
	if to.Default != nil {
		up.Filled = append(up.Filled, to)
		return ""
	}
	up.Open = append(up.Open, to)
	return quote(to.Name.Text) + " " + why
}

// shapeText names a type in a message.
func shapeText(t *Type) string {
	if t.Named != nil && t.Named.Inline {
		return "another " + string(t.Kind)
	}
	return t.String()
}

func isWider(wide, narrow *Named) bool {
	for _, v := range narrow.Enum {
		if !slices.ContainsFunc(wide.Enum, func(w EnumValue) bool { return w.Name.Text == v.Name.Text }) {
			return false
		}
	}
	return true
}

// sameShape reports types that have one Go type: the same one, or inline ones that
// were declared alike.
func sameShape(a, b *Type, seen []*Named) bool {
	if a == nil || b == nil || a.Kind != b.Kind {
		return false
	}
	if a.Elem != nil {
		return sameShape(a.Elem, b.Elem, seen)
	}
	if !sameGoType(a.Go, b.Go) {
		return false
	}
	if a.Named == nil || a.Named == b.Named {
		return a.Named == b.Named
	}
	if !a.Named.Inline || !b.Named.Inline || slices.Contains(seen, a.Named) {
		return false
	}
	return sameDeclaration(a.Named, b.Named, append(seen, a.Named))
}

func sameGoType(a, b *GoType) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ImportPath == b.ImportPath && a.Ident == b.Ident
}

func sameDeclaration(a, b *Named, seen []*Named) bool {
	if len(a.Enum) != len(b.Enum) || len(a.Fields) != len(b.Fields) {
		return false
	}
	for i := range a.Enum {
		if a.Enum[i].Name.Text != b.Enum[i].Name.Text {
			return false
		}
	}
	for i, f := range a.Fields {
		g := b.Fields[i]
		if f.Name.Text != g.Name.Text || f.GoName != g.GoName || f.Optional != g.Optional || f.PII != g.PII || !sameShape(f.Type, g.Type, seen) {
			return false
		}
	}
	return true
}

// shareInline gives a version the types that a newer one declares in its fields,
// where they are alike: one Go type, and nothing to convert.
func shareInline(v, newer *Version) {
	for _, f := range v.Fields {
		other := fieldOf(newer, f.Name.Text)
		if other == nil || other.Type == nil || !sameShape(f.Type, other.Type, nil) {
			continue
		}
		t := *other.Type
		t.Pos = f.Type.Pos
		f.Type = &t
	}
}
