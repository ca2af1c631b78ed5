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
	"github.com/outboxgen/outboxgen/internal/gogen"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var (
	consumerConstant = regexp.MustCompile(`\bConsumerName(\w+) += "([^"\\]+)"`)
	upcasterType     = regexp.MustCompile(`(?m)^type Upcaster interface`)
)

// lastRun is what the last run generated that has a stub.
type lastRun struct {
	consumers map[string]string // their names, by Go name
	upcaster  bool
}

// lastRunIn reads the first of the folders that has something of ours.
func lastRunIn(p *project, folders []string) lastRun {
	last := lastRun{consumers: map[string]string{}}
	for _, folder := range folders {
		consumers, err := p.root.ReadFile(path.Join(folder, "consumers.gen.go"))
		if err != nil { // what is in the way there is reported when the files are compared
			continue
		}
		for _, m := range consumerConstant.FindAllStringSubmatch(string(consumers), -1) {
			last.consumers[m[1]] = m[2]
		}
		upcasts, err := p.root.ReadFile(path.Join(folder, "upcasts.gen.go"))
		last.upcaster = err == nil && upcasterType.Match(upcasts)
		break
	}
	return last
}

// goName is the Go name that a consumer had, if it was generated.
func (l lastRun) goName(c *spec.Consumer) string {
	for goName, name := range l.consumers {
		if name == c.Name.Text {
			return goName
		}
	}
	return ""
}

// stubFolder is where a consumer's stub is written.
func stubFolder(m *spec.Model, c *spec.Consumer) string {
	return path.Join(m.Go.Consumers.Text, c.Package)
}

// upcasterStub is the path of the upcaster's stub.
func upcasterStub(m *spec.Model) string { return path.Join(m.Go.Consumers.Text, gogen.UpcasterStub) }

// dropKnownStubs leaves out the stubs of what an earlier run has generated: who has
// moved or renamed the handler since must not get the stub back on every run.
func dropKnownStubs(p *project, m *spec.Model, last lastRun, files []fileset.File) []fileset.File {
	known := map[string]bool{} // by the stub's folder
	for _, c := range m.Consumers {
		known[stubFolder(m, c)] = last.consumers[c.GoName] != "" || last.goName(c) != ""
	}
	return slices.DeleteFunc(files, func(f fileset.File) bool {
		isKnown := known[path.Dir(f.Path)]
		if f.Path == upcasterStub(m) {
			isKnown = last.upcaster
		}
		if !f.Once || !isKnown {
			return false
		}
		_, err := p.root.Lstat(f.Path)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// orphans names the handlers of consumers that are no more or have another Go name, and an
// upcaster without a step. They don't compile, and are the user's.
func orphans(p *project, m *spec.Model, last lastRun, made []fileset.File) []string {
	present := map[string]bool{}
	for _, c := range m.Consumers {
		present[c.GoName+handlerSuffix] = true
	}
	present[upcasterInterface] = slices.ContainsFunc(made, func(f fileset.File) bool { return f.Path == upcasterStub(m) })
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
		asked := implementedIn(data, path.Join(p.module.importPath, m.Go.Out.Text), m.Go.Package.Text)
		if len(asked) == 0 || slices.ContainsFunc(asked, func(name string) bool { return present[name] }) {
			continue
		}
		notes = append(notes, path.Join(filepath.ToSlash(p.dir), file)+" "+orphaned(p, m, last, file, asked))
	}
	return notes
}

// orphaned says why nothing calls a file that implements these interfaces, and what to do.
func orphaned(p *project, m *spec.Model, last lastRun, file string, asked []string) string {
	if slices.Contains(asked, upcasterInterface) {
		return "has nothing to upcast any more; it is yours, delete it"
	}
	for _, c := range m.Consumers {
		// After the run that changed the name, the one made of the consumer's is what is known.
		for _, was := range []string{last.goName(c), spec.GoName(c.Name.Text)} {
			if was == "" || was == c.GoName || !slices.Contains(asked, was+handlerSuffix) {
				continue
			}
			todo := fmt.Sprintf("implement %s there", c.GoName+handlerSuffix)
			if folder := stubFolder(m, c); path.Dir(file) != folder {
				to := path.Join(filepath.ToSlash(p.dir), folder, path.Base(file))
				todo = fmt.Sprintf("move it to %s, and implement %s there", to, c.GoName+handlerSuffix)
			}
			return fmt.Sprintf("is the handler of %s, whose Go name is %s now: %s", c.Name.Text, c.GoName, todo)
		}
	}
	return "belongs to no consumer any more; if nothing is to be kept of it, delete it"
}

// escapeGlob keeps a folder's name from being taken for a pattern.
func escapeGlob(name string) string {
	return regexp.MustCompile(`[*?[\\]`).ReplaceAllString(name, `\$0`)
}

// What our stubs implement.
const (
	handlerSuffix     = "Handler"
	upcasterInterface = "Upcaster"
)

// implementedIn returns the interfaces of ours that a file implements, as our stubs say
// it: var _ orderevents.SalesReportHandler = ….
func implementedIn(src []byte, importPath, packageName string) []string {
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
	var interfaces []string
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
			ours := typ.Sel.Name == upcasterInterface || strings.HasSuffix(typ.Sel.Name, handlerSuffix)
			if pkg, ok := typ.X.(*ast.Ident); ok && pkg.Name == name && ours {
				interfaces = append(interfaces, typ.Sel.Name)
			}
		}
	}
	return interfaces
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
