package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/gogen"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// plan is the tree as it should be.
type plan struct {
	files []fileset.File
	owned []string // folders whose files are ours where they carry our header
}

// plan makes everything from events.yaml, in memory: generate and check differ
// only in what they do with it.
func (a *app) plan(ctx context.Context, p *project, force bool) (plan, error) {
	// Read once, so that what is parsed is what the cache is keyed by.
	events, err := readConfig(p.config)
	if err != nil {
		return plan{}, err
	}
	model, problems := spec.Parse(p.config, events)
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	sql, problems := sqlgen.Generate(model)
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	db, problems, err := sqlcrun.Run(ctx, sqlcrun.Input{
		Root:   p.root,
		Dir:    filepath.ToSlash(p.dir),
		Schema: model.SQL.Schema,
		SQL:    sql,
		Force:  force,
		Log:    func(event string) { a.logf("%s", event) },
	})
	if err != nil {
		return plan{}, err
	}
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	code, problems := a.render(p, gogen.Input{
		Model:        model,
		ModulePath:   p.importPath,
		DB:           db.DB,
		DDL:          sql.DDL,
		ConsumersDir: model.Go.Consumers.Text,
	}, events, force)
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	code, err = dropKnownStubs(p, model, code)
	if err != nil {
		return plan{}, err
	}
	return plan{
		files: slices.Concat(sql.Files, db.Files, code),
		owned: []string{model.Go.Out.Text, sql.Out, model.SQL.Queries.Text},
	}, nil
}

// readConfig reads no more than it takes for the parser to see that a file is
// too large.
func readConfig(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4<<20))
}

// dropKnownStubs leaves out the stubs of consumers that an earlier run has
// generated: who has moved or renamed the handler since must not get the stub
// back on every run.
func dropKnownStubs(p *project, m *spec.Model, files []fileset.File) ([]fileset.File, error) {
	last, err := p.root.ReadFile(path.Join(m.Go.Out.Text, "consumers.gen.go"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		last = nil // what is in the way there is reported when the files are compared
	}
	known := map[string]bool{} // by the stub's folder
	for _, c := range m.Consumers {
		constant := regexp.MustCompile(`\bConsumerName` + regexp.QuoteMeta(c.GoName) + `\b`)
		known[path.Join(m.Go.Consumers.Text, c.Package)] = constant.Match(last)
	}
	return slices.DeleteFunc(files, func(f fileset.File) bool {
		if !f.Once || !known[path.Dir(f.Path)] {
			return false
		}
		_, err := p.root.Lstat(f.Path)
		return errors.Is(err, fs.ErrNotExist)
	}), nil
}
