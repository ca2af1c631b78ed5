package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	importElement = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._~-]*$`)
	goIdent       = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]{0,63}$`)
	majorVersion  = regexp.MustCompile(`^v[0-9]+$`)
	gopkgVersion  = regexp.MustCompile(`\.v[0-9]+$`)
)

// goTypes reads go.types: which Go type stands for a scalar or a type of types:,
// everywhere.
func (c *checker) goTypes(top object) {
	e, ok := top.vals["go"]
	if !ok || e.val.kind != kindMapping {
		return // reported
	}
	for _, part := range e.val.entries {
		if part.key.text != "types" || !c.isMapping(part.key, part.val, "go.types") {
			continue
		}
		c.model.Go.Types = map[Kind]*GoType{}
		for _, te := range part.val.entries {
			c.goTypeOf(te)
		}
	}
}

func (c *checker) goTypeOf(e entry) {
	kind, named := Kind(e.key.text), c.types[e.key.text]
	if !slices.Contains(scalars(), kind) && named == nil {
		c.noSuchType(e.key)
		return
	}
	t := c.readGoType(e.val, "the Go type of "+e.key.text)
	switch {
	case t == nil:
	case named != nil:
		named.Go = t
	default:
		c.model.Go.Types[kind] = t
	}
}

// readGoType reads and notes a Go type. It is nil when it was refused.
func (c *checker) readGoType(n *node, what string) *GoType {
	text, ok := c.scalar(n, what)
	if !ok {
		return nil
	}
	t, ok := c.goType(n, text)
	if !ok {
		return nil
	}
	c.model.GoTypes = append(c.model.GoTypes, t)
	return &t
}

// fieldGoType reads go_type of a field. It is the Go type of a value: of an optional
// field's, or of those in a list or a map.
func (c *checker) fieldGoType(e entry, f *Field, what string) {
	t := c.readGoType(e.val, "go_type of "+what)
	if t == nil || f.Type == nil {
		return
	}
	inner := f.Type.Innermost()
	if inner.Named != nil && inner.Named.Inline {
		c.problem(e.key, "contradiction", what+" declares a type of its own and has a go_type", "declare the type under types:, and name it in type:")
		return
	}
	f.Type = withGoType(f.Type, t)
}

// withGoType is the same type with another Go type inside.
func withGoType(t *Type, goType *GoType) *Type {
	copied := *t
	if t.Elem != nil {
		copied.Elem = withGoType(t.Elem, goType)
	} else {
		copied.Go = goType
	}
	return &copied
}

func (c *checker) noSuchType(key *node) {
	names := c.typeNames()
	hint := otherTypeSystems(key.text)
	if hint == "" {
		hint = c.didYouMean(key.text, names)
	}
	if hint == "" {
		hint = "name a scalar, or a type that is declared under types:"
	}
	c.problem(key, "unknown-type", fmt.Sprintf("%s in go.types is neither a scalar nor a type of types:", quote(key.text)), hint)
}

// goType reads import/path.Ident. The text becomes an import and a selector
// of generated code, so the patterns are strict.
func (c *checker) goType(n *node, text string) (GoType, bool) {
	const example = "write it as github.com/shopspring/decimal.Decimal"
	bad := func(why, hint string) (GoType, bool) {
		c.problem(n, "bad-go-type", fmt.Sprintf("the Go type %s %s", quote(text), why), hint)
		return GoType{}, false
	}
	if strings.HasPrefix(text, "*") || strings.HasPrefix(text, "[") {
		return bad("is a pointer or a slice", "name the type alone")
	}
	dot := strings.LastIndexByte(text, '.')
	if dot <= strings.LastIndexByte(text, '/') {
		return bad("lacks the import path or the name", example)
	}
	importPath, ident := text[:dot], text[dot+1:]
	if !goIdent.MatchString(ident) {
		return bad("does not end in an exported name", example)
	}
	if importPath == "C" || importPath == "unsafe" {
		return bad("comes from a package that generated code must not import", "")
	}
	elements := strings.Split(importPath, "/")
	for _, element := range elements {
		if len(importPath) > 256 || !importElement.MatchString(element) || strings.HasSuffix(element, ".") {
			return bad("has a bad import path", example)
		}
	}
	name := importName(elements)
	if !packageName.pattern.MatchString(name) || isGoWord(name) {
		return bad("comes from a package whose name can't be told", "a package is imported by the last element of its path")
	}
	return GoType{ImportPath: importPath, Package: name, Ident: ident, Pos: n.pos}, true
}

// importName is the name a package is most likely imported by: the last
// element of its path, without a major version and the go- that repositories
// carry. Generated code gives the name in its import, so that it need not be
// the package's own.
func importName(elements []string) string {
	last := elements[len(elements)-1]
	if len(elements) > 1 && majorVersion.MatchString(last) {
		last = elements[len(elements)-2]
	}
	last = gopkgVersion.ReplaceAllString(last, "")
	last = strings.TrimPrefix(strings.TrimSuffix(last, "-go"), "go-")
	last = strings.TrimSuffix(last, ".go")
	return strings.ToLower(strings.NewReplacer("-", "", ".", "", "~", "").Replace(last))
}
