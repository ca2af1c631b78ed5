package spec

import (
	"fmt"
	"slices"
)

// sameShape reports types that can have one Go type: the same one, or inline ones that
// hold the same. Order, doc, pii and go_name are no difference: the newer version's count.
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
	if len(a.Enum) != len(b.Enum) || len(a.Fields) != len(b.Fields) || !isWider(a, b) || !isWider(b, a) {
		return false
	}
	for _, f := range a.Fields {
		g := member(b, f.Name.Text)
		if g == nil || f.Optional != g.Optional || !sameShape(f.Type, g.Type, seen) {
			return false
		}
	}
	return true
}

func member(n *Named, name string) *Field {
	if i := slices.IndexFunc(n.Fields, func(f *Field) bool { return f.Name.Text == name }); i >= 0 {
		return n.Fields[i]
	}
	return nil
}

// shareInline gives a version the types that a newer one declares in its fields,
// where they hold the same: one Go type, and nothing to convert.
func shareInline(v, newer *Version) {
	for _, f := range v.Fields {
		other := fieldOf(newer, f.Name.Text)
		if other == nil || other.Type == nil || !sameShape(f.Type, other.Type, nil) {
			continue
		}
		keepPrivate(f.Type, other.Type)
		t := *other.Type
		t.Pos = f.Type.Pos
		f.Type = &t
	}
}

// keepPrivate marks as pii in b what is so in a, which b takes the place of: the values
// of one version must not show because the other forgot the mark.
func keepPrivate(a, b *Type) {
	was, is := a.Innermost().Named, b.Innermost().Named
	if was == nil || was == is {
		return
	}
	for _, f := range was.Fields {
		g := member(is, f.Name.Text)
		g.PII = g.PII || f.PII
		keepPrivate(f.Type, g.Type)
	}
}

// difference is why a field can't be taken over; without a text it can.
type difference struct {
	text   string
	inBoth bool // it goes away when the field or value is written in both versions
}

// versionType is a type in a version of an event.
type versionType struct {
	*Type
	version int
}

// differ says what two types differ in, which have not the same shape. at is the field
// that has them, by its path.
func differ(at string, a, b versionType) difference {
	if a.Elem != nil && a.Kind == b.Kind {
		suffix := "[]"
		if a.Kind == KindMap {
			suffix = "{}"
		}
		return differ(at+suffix, versionType{a.Elem, a.version}, versionType{b.Elem, b.version})
	}
	inline := a.Named != nil && b.Named != nil && a.Named.Inline && b.Named.Inline
	if !inline || a.Kind != b.Kind || !sameGoType(a.Go, b.Go) {
		return difference{text: fmt.Sprintf("%s was %s and is %s", quote(at), shapeText(a.Type, b.Type), shapeText(b.Type, a.Type))}
	}
	for _, side := range [][2]versionType{{a, b}, {b, a}} {
		if d := alone(at, side[0], side[1].Named); d.text != "" {
			return d
		}
	}
	for _, f := range b.Named.Fields {
		g, path := member(a.Named, f.Name.Text), at+"."+f.Name.Text
		switch {
		case g.Optional != f.Optional:
			return difference{text: fmt.Sprintf("%s was %s and is %s", quote(path), needed(g), needed(f))}
		case f.Type != nil && g.Type != nil && !sameShape(g.Type, f.Type, nil):
			return differ(path, versionType{g.Type, a.version}, versionType{f.Type, b.version})
		}
	}
	return difference{}
}

// alone names what a has and other lacks.
func alone(at string, a versionType, other *Named) difference {
	for _, f := range a.Named.Fields {
		if member(other, f.Name.Text) == nil {
			return difference{fmt.Sprintf("%s is in version %d alone", quote(at+"."+f.Name.Text), a.version), f.Optional}
		}
	}
	for _, v := range a.Named.Enum {
		if !slices.ContainsFunc(other.Enum, func(o EnumValue) bool { return o.Name.Text == v.Name.Text }) {
			return difference{fmt.Sprintf("the value %s of %s is in version %d alone", quote(v.Name.Text), quote(at), a.version), true}
		}
	}
	return difference{}
}

func needed(f *Field) string {
	if f.Optional {
		return "optional"
	}
	return "required"
}

// shapeText names a type in a message, and its Go type where it has another one than the
// type that it is compared with.
func shapeText(t, other *Type) string {
	text := t.String()
	if t.Named != nil && t.Named.Inline {
		text = "an inline " + string(t.Kind)
	}
	if sameGoType(t.Go, other.Go) || t.Kind != other.Kind {
		return text
	}
	if t.Go == nil {
		return text + " in its own Go type"
	}
	return fmt.Sprintf("%s in Go type %s.%s", text, t.Go.ImportPath, t.Go.Ident)
}
