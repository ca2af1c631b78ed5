package cli

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

//go:embed starter/events.yaml.tmpl
var starterEvents string

//go:embed starter/generate.go.tmpl
var starterGenerate string

func (a *app) initCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first events.yaml for a service, and the go:generate line",
		Long: `Write a first events.yaml for a service, new or not, and a generate.go with the
go:generate line beside it. Files that exist are left as they are.

What the folder has already is taken into account: a package of the same name, a
sqlc configuration, queries, and the tables of your own, in schema or migrations.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), dryRun) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	return cmd
}

func (a *app) init(ctx context.Context, dryRun bool) error {
	dir := filepath.Dir(a.config)
	module, err := moduleOf(dir)
	if err != nil {
		return err
	}
	s := newStarter(module.importPath, filepath.Base(a.config))
	if s.Package, err = packageOf(dir, s.Package); err != nil {
		return err
	}
	notes := append(s.fitIn(dir), module.workspaceNote()...)
	if _, err := os.Lstat(a.config); errors.Is(err, fs.ErrNotExist) {
		if notes, err = a.trySchema(ctx, dir, &s, notes); err != nil {
			return err
		}
	}
	events, err := s.render(starterEvents)
	if err != nil {
		return err
	}
	generate, err := s.render(starterGenerate)
	if err != nil {
		return err
	}
	wrote := false
	for i, f := range []struct {
		name string
		data []byte
	}{{a.config, events}, {filepath.Join(dir, "generate.go"), generate}} {
		did, err := a.writeStarter(f.name, f.data, dryRun)
		if err != nil {
			return err
		}
		if i == 0 && !did {
			notes = nil // they are about what isn't written
		}
		wrote = wrote || did
	}
	for _, note := range notes {
		a.printf("outboxgen: %s\n", note)
	}
	if wrote && !dryRun {
		a.printNextSteps(module, dir)
	}
	return a.reportClean()
}

// writeStarter writes a file that must not exist, or shows it.
func (a *app) writeStarter(name string, data []byte, dryRun bool) (wrote bool, err error) {
	if dryRun {
		if _, err := os.Lstat(name); err == nil {
			a.printf("outboxgen: %s exists and would be left as it is\n", name)
			return false, nil
		}
		a.printf("outboxgen: would write %s:\n\n%s\n", name, data)
		return true, nil
	}
	switch err := writeNew(name, data); {
	case errors.Is(err, fs.ErrExist):
		a.printf("outboxgen: %s exists and is left as it is\n", name)
		return false, nil
	case err != nil:
		return false, err
	}
	a.printf("outboxgen: wrote %s\n", name)
	return true, nil
}

// tool is the package that go.mod names as a tool.
const tool = "github.com/outboxgen/outboxgen/cmd/outboxgen"

func (a *app) printNextSteps(module goModule, dir string) {
	var steps []string
	if dir != "." {
		steps = append(steps, "cd "+dir)
	}
	steps = append(steps, "describe your events in "+filepath.Base(a.config))
	if !module.hasTool(tool) {
		steps = append(steps, "go get -tool "+tool)
	}
	steps = append(steps, "go generate .", "create the tables of the generated schema.sql, and fill in the handlers in consumers/")
	a.printf("\nNext:\n")
	for i, step := range steps {
		a.printf("  %d. %s\n", i+1, step)
	}
}

// starter is what the starter files are made of.
type starter struct {
	Service string // "orders"
	Thing   string // what the service is about: "order"
	Package string // Go package of the folder
	Events  string // Go package of the generated code
	Flags   string // of the go:generate line

	Out     string // folder of the generated package
	Queries string // folder of our queries
	Config  string // sqlc's configuration of ours

	Schema    []string // files and folders with tables of the user's own
	SchemaBad string   // why they can't be read; then they are only a comment
}

func newStarter(importPath, config string) starter {
	words := serviceWords(importPath)
	thing := words[len(words)-1]
	if len(thing) > 3 && strings.HasSuffix(thing, "s") && !strings.HasSuffix(thing, "ss") {
		thing = strings.TrimSuffix(thing, "s")
	}
	s := starter{
		Service: strings.Join(words, "-"),
		Thing:   thing,
		Package: strings.Join(words, ""),
		Events:  strings.Join(words[:len(words)-1], "") + thing + "events",
		Queries: "queries",
		Config:  "sqlc.yaml",
	}
	s.Out = "gen/" + s.Events
	if config != "events.yaml" {
		s.Flags = " --config " + config
	}
	return s
}

// serviceWords are the words of the import path's last element, without what
// says nothing about the service: a major version, "go-" or "-service".
func serviceWords(importPath string) []string {
	elements := strings.Split(importPath, "/")
	last := elements[len(elements)-1]
	if len(elements) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = elements[len(elements)-2]
	}
	var words []string
	for _, word := range strings.FieldsFunc(strings.ToLower(last), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		if word = strings.TrimLeft(word, "0123456789"); word != "" {
			words = append(words, word)
		}
	}
	for len(words) > 1 && saysNothing.MatchString(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) > 1 && words[0] == "go" {
		words = words[1:]
	}
	name := strings.Join(words, "")
	if name == "" || name == "main" || len(name) > 24 || token.IsKeyword(name) {
		return []string{"orders"}
	}
	return words
}

var saysNothing = regexp.MustCompile(`^(service|svc|api|v[0-9]+)$`)

func (s starter) render(text string) ([]byte, error) {
	t, err := template.New("starter").Funcs(template.FuncMap{"join": strings.Join}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, s)
	return b.Bytes(), err
}

// packageOf is the Go package that dir has already, so that generate.go fits in.
func packageOf(dir, fallback string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.PackageClauseOnly)
		if err == nil && f.Name.Name != "documentation" {
			return f.Name.Name, nil
		}
	}
	return fallback, nil
}

// writeNew writes a file that must not exist.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(name)))
	}
	return nil
}
