package rules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/rules"
)

// Every rule that the source can report has a text, and every text a rule.
func TestEveryRuleIsExplained(t *testing.T) {
	found := rulesOfSource(t)
	if len(found) < 50 {
		t.Fatalf("only %d rules were found in the source: the test looks in the wrong place", len(found))
	}
	ids := rules.IDs()
	for _, id := range sortedKeys(found) {
		if !slices.Contains(ids, id) {
			t.Errorf("%s reports the rule %q, which has no text.\n"+
				"Write internal/rules/text/%s.md like the others there: a title, kind: one of %v, why it is a rule in two to four sentences, "+
				"and an example before and after. If the example can't be run, say so in a line \"example: not run: the reason\".",
				found[id], id, id, rules.Kinds())
		}
	}
	for _, id := range ids {
		if found[id] == "" {
			t.Errorf("internal/rules/text/%s.md explains a rule that nothing in internal/ reports: remove it, or report the rule with the id as a literal", id)
		}
	}
}

// rulesOfSource are the ids in the packages of internal/ that know diag, each with
// the place where it was found first.
func rulesOfSource(t *testing.T) map[string]string {
	t.Helper()
	found, consts := map[string]string{}, map[string]string{}
	byDir := packagesWithFindings(t)
	var scans []*scan
	for dir, files := range byDir {
		s := &scan{
			t: t, dir: dir, consts: consts, found: found,
			carriers: carriers{params: map[string]int{}, fields: map[string]int{"Diagnostic": -1}},
		}
		for _, f := range files {
			s.fset = f.fset
			ast.Inspect(f.syntax, func(n ast.Node) bool { s.declare(n); return true })
		}
		scans = append(scans, s)
	}
	for _, s := range scans {
		for _, f := range byDir[s.dir] {
			s.fset = f.fset
			ast.Inspect(f.syntax, func(n ast.Node) bool { s.use(n); return true })
		}
	}
	return found
}

type source struct {
	fset   *token.FileSet
	syntax *ast.File
}

func packagesWithFindings(t *testing.T) map[string][]source {
	t.Helper()
	byDir := map[string][]source{}
	knows := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "testdata" || e.Name() == "diag") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		byDir[dir] = append(byDir[dir], source{fset, syntax})
		for _, i := range syntax.Imports {
			knows[dir] = knows[dir] || strings.HasSuffix(i.Path.Value, `/internal/diag"`)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range byDir {
		if !knows[dir] {
			delete(byDir, dir)
		}
	}
	return byDir
}

// carriers are what takes a rule: functions with a parameter "rule" and structs with
// a field "rule" or "Rule", all of type string or Rule, by name, with its index. -1 is
// a struct of another package, which is written with keys.
type carriers struct{ params, fields map[string]int }

type scan struct {
	t        *testing.T
	dir      string
	fset     *token.FileSet
	carriers carriers
	consts   map[string]string // of all packages: texts by "package.Name"
	found    map[string]string
}

func (s *scan) declare(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if i, ok := indexOfRule(n.Type.Params); ok {
			s.carriers.params[n.Name.Name] = i
		}
	case *ast.AssignStmt: // report := func(rule, message string) {…}
		for i, right := range n.Rhs {
			if f, is := right.(*ast.FuncLit); is {
				if at, ok := indexOfRule(f.Type.Params); ok {
					s.carriers.params[nameOf(n.Lhs[i])] = at
				}
			}
		}
	case *ast.ValueSpec:
		s.constant(n)
	case *ast.TypeSpec:
		if st, is := n.Type.(*ast.StructType); is {
			if i, ok := indexOfRule(st.Fields); ok {
				s.carriers.fields[n.Name.Name] = i
			}
		}
	}
}

// constant notes a text, and takes one that is a rule by its type.
func (s *scan) constant(n *ast.ValueSpec) {
	for i, name := range n.Names {
		if i >= len(n.Values) {
			return
		}
		if lit, is := n.Values[i].(*ast.BasicLit); is && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				s.t.Fatal(err)
			}
			s.consts[filepath.Base(s.dir)+"."+name.Name] = text
			if nameOf(n.Type) == "Rule" {
				s.take(lit)
			}
		}
	}
}

func indexOfRule(list *ast.FieldList) (int, bool) {
	i := 0
	for _, f := range list.List {
		for _, name := range f.Names {
			if strings.EqualFold(name.Name, "rule") && (nameOf(f.Type) == "string" || nameOf(f.Type) == "Rule") {
				return i, true
			}
			i++
		}
	}
	return 0, false
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func (s *scan) use(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if i, ok := s.carriers.params[nameOf(n.Fun)]; ok && i < len(n.Args) {
			s.take(n.Args[i])
		}
	case *ast.CompositeLit:
		s.literal(n)
	case *ast.AssignStmt: // d.Rule = "…"
		for i, left := range n.Lhs {
			if sel, is := left.(*ast.SelectorExpr); is && sel.Sel.Name == "Rule" && len(n.Lhs) == len(n.Rhs) {
				s.take(n.Rhs[i])
			}
		}
	}
}

// literal reads a struct of a known type, and what has the key Rule: the type of
// an element of a list is not written.
func (s *scan) literal(n *ast.CompositeLit) {
	at, known := s.carriers.fields[nameOf(n.Type)]
	if list, is := n.Type.(*ast.ArrayType); is {
		s.elements(list, n.Elts)
	}
	s.structure(n, at, known)
}

// elements reads a list of structs that are written without their type.
func (s *scan) elements(list *ast.ArrayType, elements []ast.Expr) {
	at, known := s.carriers.fields[nameOf(list.Elt)]
	if st, is := list.Elt.(*ast.StructType); is {
		at, known = indexOfRule(st.Fields)
	}
	for _, e := range elements {
		if lit, is := e.(*ast.CompositeLit); is && lit.Type == nil && known {
			s.structure(lit, at, known)
		}
	}
}

func (s *scan) structure(n *ast.CompositeLit, at int, known bool) {
	for i, e := range n.Elts {
		if kv, keyed := e.(*ast.KeyValueExpr); keyed {
			if key := nameOf(kv.Key); known && strings.EqualFold(key, "rule") || n.Type == nil && key == "Rule" {
				s.take(kv.Value)
			}
		} else if known && i == at {
			s.take(e)
		}
	}
}

func (s *scan) take(e ast.Expr) {
	if lit, is := e.(*ast.BasicLit); is && lit.Kind == token.STRING {
		id, err := strconv.Unquote(lit.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		s.note(id, lit.Pos())
		return
	}
	switch e := e.(type) {
	case *ast.CallExpr: // string(rule)
		if nameOf(e.Fun) == "string" && len(e.Args) == 1 {
			s.take(e.Args[0])
			return
		}
	case *ast.SelectorExpr:
		if text := s.consts[nameOf(e.X)+"."+e.Sel.Name]; text != "" {
			s.note(text, e.Pos())
			return
		}
	case *ast.Ident:
		if text := s.consts[filepath.Base(s.dir)+"."+e.Name]; text != "" {
			s.note(text, e.Pos())
			return
		}
	}
	if name := nameOf(e); strings.EqualFold(name, "rule") {
		return // passed on: it is taken where it comes from
	}
	s.t.Errorf("%s: write the rule as a literal or a constant, so that it can be told that it has a text", s.fset.Position(e.Pos()))
}

func (s *scan) note(id string, pos token.Pos) {
	if s.found[id] == "" {
		s.found[id] = fmt.Sprint(s.fset.Position(pos))
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
