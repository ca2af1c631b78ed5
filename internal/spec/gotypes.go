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

// goTypes reads go.types: which Go type stands for a scalar, everywhere.
func (c *checker) goTypes(o object) {
	n := c.optional(o, "types")
	if n == nil || !c.isMapping(o.vals["types"].key, n, "go.types") {
		return
	}
	c.model.Go.Types = map[Kind]GoType{}
	for _, e := range n.entries {
		kind := Kind(e.key.text)
		if !slices.Contains(scalars(), kind) {
			c.notAScalar(e.key)
			continue
		}
		if text, ok := c.scalar(e.val, "the Go type of "+e.key.text); ok {
			if t, ok := c.goType(e.val, text); ok {
				c.model.Go.Types[kind] = t
			}
		}
	}
}

func (c *checker) notAScalar(key *node) {
	var names []string
	for _, k := range scalars() {
		names = append(names, string(k))
	}
	hint := otherTypeSystems(key.text)
	if hint == "" {
		hint = c.didYouMean(key.text, names)
	}
	if hint == "" {
		hint = "the scalars are " + strings.Join(names, ", ")
	}
	c.problem(key, "unknown-type", fmt.Sprintf("%s in go.types is no scalar", quote(key.text)), hint)
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
