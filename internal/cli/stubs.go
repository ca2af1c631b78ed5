package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var consumerConstant = regexp.MustCompile(`\bConsumerName(\w+) += "([^"\\]+)"`)

// consumersBefore are the consumers that the last run generated, by Go name:
// the first of the folders that has them tells.
func consumersBefore(p *project, folders []string) map[string]string {
	before := map[string]string{}
	for _, folder := range folders {
		last, err := p.root.ReadFile(path.Join(folder, "consumers.gen.go"))
		if err != nil { // what is in the way there is reported when the files are compared
			continue
		}
		for _, m := range consumerConstant.FindAllStringSubmatch(string(last), -1) {
			before[m[1]] = m[2]
		}
		break
	}
	return before
}

// dropKnownStubs leaves out the stubs of consumers that an earlier run has
// generated: who has moved or renamed the handler since must not get the stub
// back on every run.
func dropKnownStubs(p *project, m *spec.Model, before map[string]string, files []fileset.File) []fileset.File {
	known := map[string]bool{} // by the stub's folder
	for _, c := range m.Consumers {
		known[path.Join(m.Go.Consumers.Text, c.Package)] = before[c.GoName] != ""
	}
	return slices.DeleteFunc(files, func(f fileset.File) bool {
		if !f.Once || !known[path.Dir(f.Path)] {
			return false
		}
		_, err := p.root.Lstat(f.Path)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// orphans names the handlers of consumers that are no more. They don't compile,
// and are the user's.
func orphans(p *project, m *spec.Model) []string {
	present := map[string]bool{}
	for _, c := range m.Consumers {
		present[c.GoName] = true
	}
	files, err := fs.Glob(p.root.FS(), path.Join(escapeGlob(m.Go.Consumers.Text), "*", "*.go"))
	if err != nil {
		return nil
	}
	var notes []string
	for _, file := range files {
		data, err := p.root.ReadFile(file)
		if err != nil {
			continue
		}
		handled := handlersIn(data, path.Join(p.module.importPath, m.Go.Out.Text), m.Go.Package.Text)
		if len(handled) == 0 || slices.ContainsFunc(handled, func(consumer string) bool { return present[consumer] }) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s belongs to no consumer any more; it is yours, delete it",
			path.Join(filepath.ToSlash(p.dir), file)))
	}
	return notes
}

// escapeGlob keeps a folder's name from being taken for a pattern.
func escapeGlob(name string) string {
	return regexp.MustCompile(`[*?[\\]`).ReplaceAllString(name, `\$0`)
}

// handlersIn returns the Go names of the consumers that a file implements the
// handlers of, as our stubs say it: var _ orderevents.SalesReportHandler = ….
func handlersIn(src []byte, importPath, packageName string) []string {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	name := ""
	for _, i := range f.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err != nil || p != importPath {
			continue
		}
		name = packageName
		if i.Name != nil {
			name = i.Name.Name
		}
	}
	var consumers []string
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR || name == "" {
			continue
		}
		for _, s := range gen.Specs {
			value, ok := s.(*ast.ValueSpec)
			if !ok || len(value.Names) != 1 || value.Names[0].Name != "_" || len(value.Values) != 1 {
				continue
			}
			typ, ok := value.Type.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			consumer, isHandler := strings.CutSuffix(typ.Sel.Name, "Handler")
			if pkg, ok := typ.X.(*ast.Ident); ok && pkg.Name == name && isHandler {
				consumers = append(consumers, consumer)
			}
		}
	}
	return consumers
}

// renames warns when a consumer has gone while another has come.
func renames(m *spec.Model, before map[string]string) []string {
	now := map[string]bool{}
	for _, c := range m.Consumers {
		now[c.Name.Text] = true
	}
	was := map[string]bool{}
	var gone, come []string
	for _, name := range before {
		was[name] = true
		if !now[name] {
			gone = append(gone, name)
		}
	}
	for _, c := range m.Consumers {
		if !was[c.Name.Text] {
			come = append(come, c.Name.Text)
		}
	}
	if len(gone) == 0 || len(come) == 0 {
		return nil
	}
	slices.Sort(gone)
	return []string{fmt.Sprintf("gone: %s; new: %s. If that is a rename, mind that a consumer's name is half of its dedup identity: "+
		"under the new name, events that come again are applied again", strings.Join(gone, ", "), strings.Join(come, ", "))}
}
