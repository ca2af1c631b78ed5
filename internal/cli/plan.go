package cli

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/gogen"
	"github.com/outboxgen/outboxgen/internal/rebuild"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// plan is the tree as it should be.
type plan struct {
	model *spec.Model
	lock  lock
	files []fileset.File
	owned []string // files, and folders of files, that are ours where they carry our header
	notes []string // what the user should know, and generate neither does nor stops at
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
	lock, err := readLock(p.config)
	if err != nil {
		return plan{}, err
	}
	if problems := lock.broken(model); len(problems) > 0 {
		return plan{}, found(problems)
	}
	sql, problems := sqlgen.Generate(model)
	problems = append(problems, rebuild.Problems(model)...)
	problems = append(problems, p.module.checkGoTypes(model)...)
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	in := sqlcrun.Input{
		Root:   p.root,
		Config: filepath.Base(p.config),
		Dir:    filepath.ToSlash(p.dir),
		Schema: model.SQL.Schema,
		SQL:    sql,
		Force:  force,
		Log:    func(event string) { a.logf("%s", event) },
	}
	db, problems, err := sqlcrun.Run(ctx, in)
	if err != nil {
		return plan{}, err
	}
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	code, problems := a.render(p, gogen.Input{
		Model:        model,
		Locked:       lock.model,
		ModulePath:   p.module.importPath,
		DB:           db.DB,
		DDL:          sql.DDL,
		ConsumersDir: model.Go.Consumers.Text,
	}, sources{events, lock.src}, force)
	if len(problems) > 0 {
		return plan{}, found(problems)
	}
	leftovers, err := sqlcrun.Leftovers(in)
	if err != nil {
		return plan{}, err
	}
	last := lastRunIn(p, append([]string{model.Go.Out.Text}, leftovers...))
	owned := append([]string{model.Go.Out.Text, sql.Out, model.SQL.Queries.Text}, leftovers...)
	if out := model.Exports.Out.Text; out != "" {
		owned = append(owned, out)
	}
	made := plan{
		model: model,
		lock:  lock,
		files: slices.Concat(sql.Files, db.Files, dropKnownStubs(p, model, last, code), export.Files(model)),
		owned: owned,
		notes: slices.Concat(orphans(p, model, last, code), renames(model, last.consumers), lock.newer(model)),
	}
	if problems, err = made.spareOthers(p, in); err != nil {
		return plan{}, err
	}
	return made, found(problems)
}

// readConfig reads no more than it takes for the parser to see that a file is
// too large.
func readConfig(name string) ([]byte, error) { return readAtMost(name, 8<<20) }
