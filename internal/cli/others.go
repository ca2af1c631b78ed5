package cli

import (
	"fmt"
	"path"
	"slices"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/lockfile"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
)

// spareOthers keeps the plan from what carries our header and isn't this events.yaml's:
// locks, which only the command lock writes and nothing removes, and what another
// events.yaml has in the same folders. Its findings are files that two of them write.
func (pl *plan) spareOthers(p *project, in sqlcrun.Input) (diag.List, error) {
	report, err := fileset.Compare(p.root, pl.files, pl.owned)
	if err != nil || len(report.Stale)+len(report.Changed) == 0 {
		return nil, err
	}
	others, err := sqlcrun.Others(in)
	if err != nil {
		return nil, err
	}
	for _, file := range report.Stale {
		if lockfile.IsName(file) || others[file] != "" {
			pl.files = append(pl.files, fileset.File{Path: file, Once: true})
		}
	}
	var problems diag.List
	for _, f := range in.SQL.Files {
		if owner := others[f.Path]; owner != "" && slices.Contains(report.Changed, f.Path) {
			problems.Add(diag.Diagnostic{
				Pos: diag.Pos{File: f.Path}, Rule: "file-of-another-config",
				Message: fmt.Sprintf("was generated for %s, and would be overwritten", path.Join(in.Dir, owner)),
				Hint:    "give one of the two other paths under sql: config and queries, and generate that one first",
			})
		}
	}
	return p.shown(problems), nil
}
