// Package sqlcrun has sqlc compile the generated queries against the
// generated tables and the user's own.
//
// sqlc ends its process on an error and writes to the real stderr, so it runs
// as a child: this same executable with [ChildArg] as its first argument, in a
// staging folder, before anything of the user's is touched. It doesn't run at
// all while a committed sum file says that nothing it reads or made has
// changed.
package sqlcrun

import (
	"context"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// ChildArg is the hidden first argument that makes the executable be sqlc.
const ChildArg = "__sqlc"

// Input is what a run depends on.
type Input struct {
	Root   *os.Root        // the folder of events.yaml
	Config string          // the name of events.yaml in it
	Dir    string          // the same folder as findings should name it, "." or a path
	Schema []spec.Name     // the user's own DDL files and folders
	SQL    sqlgen.Result   // the generated SQL
	Force  bool            // run sqlc whatever the sum file says
	Child  []string        // the command that is sqlc. Defaults to this executable with ChildArg
	Limit  time.Duration   // after which the child is killed. Defaults to 2 minutes
	Log    func(ev string) // told whether sqlc runs, and why. May be nil
}

// Output is sqlc's Go code.
type Output struct {
	Files []fileset.File    // the Go files and the sum file
	DB    map[string][]byte // the Go files by base name
}

// Run compiles the queries. Findings are about the user's files: their tables,
// or a source in events.yaml that names what isn't there. The error says why
// sqlc could not be asked, or is a fault of our own.
func Run(ctx context.Context, in Input) (Output, diag.List, error) {
	in = in.withDefaults()
	schema, problems := readSchema(in)
	if len(problems) > 0 {
		return Output{}, problems, nil
	}
	want := inputSum(in.SQL.Files, schema)
	db, why := unchanged(in, want)
	if why == "" {
		in.Log("sqlc not run: nothing that it reads or wrote has changed")
		return output(in, want, db), checkRequests(in, schema), nil
	}
	in.Log("sqlc run: " + why)

	stage, err := newStage(in, schema)
	if err != nil {
		return Output{}, nil, fmt.Errorf("prepare the staging folder of sqlc: %w", err)
	}
	defer stage.remove()
	report, err := stage.run(ctx)
	if err != nil {
		return Output{}, nil, err
	}
	if report.failed {
		problems, err := translate(ctx, in, stage, report)
		return Output{}, problems, err
	}
	if problems, err = checkColumns(in, stage); err != nil {
		return Output{}, nil, err
	}
	if problems = append(problems, checkRequests(in, schema)...); len(problems) > 0 {
		return Output{}, problems, nil
	}
	if db, err = stage.output(); err != nil {
		return Output{}, nil, err
	}
	return output(in, want, db), nil, nil
}

func (in Input) withDefaults() Input {
	if in.Limit == 0 {
		in.Limit = 2 * time.Minute
	}
	if in.Log == nil {
		in.Log = func(string) {}
	}
	return in
}

// shown is how findings name a file of the user's.
func (in Input) shown(file string) string { return path.Join(in.Dir, file) }

func output(in Input, input string, db map[string][]byte) Output {
	o := Output{DB: db}
	for _, name := range sortedKeys(db) {
		o.Files = append(o.Files, fileset.File{Path: path.Join(in.SQL.Out, name), Data: db[name]})
	}
	o.Files = append(o.Files, fileset.File{Path: path.Join(in.SQL.Out, sumFile), Data: renderSum(in, input, db)})
	return o
}
