package gogen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// manifest is what a file is meant to hold, noted while it is made.
type manifest struct {
	decls   []string // "type T", "func F", "func (T) M", "func (*T) M", "const C", "var V", in order
	imports []string
}

// verify parses src and compares it with the manifest. A text of events.yaml
// that became code, whatever the way, declares or imports something, or ends or
// replaces a declaration of ours.
func (m *manifest) verify(src []byte) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			if !isPlainComment(c.Text) {
				return fmt.Errorf("a comment is a directive or has another form than ours")
			}
		}
	}
	var decls []string
	for _, d := range parsed.Decls {
		decls = append(decls, declared(d)...)
	}
	if !slices.Equal(decls, m.decls) {
		return fmt.Errorf("it declares %s", difference(decls, m.decls))
	}
	var paths []string
	for _, i := range parsed.Imports {
		importPath, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if i.Name != nil && (i.Name.Name == "_" || i.Name.Name == ".") {
			return fmt.Errorf("it imports %q as %q", importPath, i.Name.Name)
		}
		paths = append(paths, importPath)
	}
	want := slices.Sorted(slices.Values(m.imports))
	slices.Sort(paths)
	if !slices.Equal(paths, want) {
		return fmt.Errorf("it imports %s", difference(paths, want))
	}
	return nil
}

// isPlainComment holds for a // comment that no tool takes for a directive.
func isPlainComment(text string) bool {
	rest, ok := strings.CutPrefix(text, "//")
	if !ok {
		return false
	}
	return rest == "" || (rest[0] == ' ' || rest[0] == '\t') && !strings.HasPrefix(strings.TrimSpace(rest), "+build")
}

func declared(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{"func " + d.Name.Name}
		}
		return []string{"func (" + receiver(d.Recv) + ") " + d.Name.Name}
	case *ast.GenDecl:
		var out []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, "type "+s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					out = append(out, d.Tok.String()+" "+n.Name)
				}
			}
		}
		return out
	}
	return []string{"something unknown"}
}

func receiver(fields *ast.FieldList) string {
	if len(fields.List) != 1 {
		return "?"
	}
	switch t := fields.List[0].Type.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		if id, ok := t.X.(*ast.Ident); ok {
			return "*" + id.Name
		}
	}
	return "?"
}

// difference names the first place where two lists differ.
func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("nothing more where %q should be", want[i])
		case i >= len(want):
			return fmt.Sprintf("%q, which should not be there", got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("%q where %q should be", got[i], want[i])
		}
	}
	return "the same"
}
