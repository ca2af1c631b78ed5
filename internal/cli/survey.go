package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// fitIn keeps a starter out of the way of what the folder has already, and says how.
func (s *starter) fitIn(dir string) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for i := 2; isTheirs(dir, s.Out, ".go"); i++ {
		taken := s.Out
		s.Events = fmt.Sprintf("%s%d", strings.TrimRight(s.Events, "0123456789"), i)
		s.Out = "gen/" + s.Events
		note("%s has Go files of yours: the generated package goes to %s", taken, s.Out)
	}
	for _, name := range []string{"sqlc.yaml", "sqlc.yml", "sqlc.json"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil && !fileset.Ours(data) {
			s.Config = "outboxgen.sqlc.yaml"
			note("%s is yours and stays as it is: ours is %s (sqlc -f %s)", name, s.Config, s.Config)
			break
		}
	}
	if isTheirs(dir, s.Queries, ".sql") {
		s.Queries = "queries/outbox"
		note("queries has SQL files of yours: ours go to %s", s.Queries)
	}
	if s.Schema = schemaOf(dir); len(s.Schema) > 0 {
		note("your own tables are taken from %s: look whether sql.schema names all of them", strings.Join(s.Schema, ", "))
	}
	return notes
}

// isTheirs reports a folder with files of that kind that don't carry our header.
func isTheirs(dir, folder, ext string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(folder)))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // something is there
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ext) {
			return false
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(folder), e.Name()))
		return err != nil || !fileset.Ours(data)
	})
}

// schemaOf is where the user's tables are: what sqlc reads already, or else the first
// of the usual folders that has SQL in it.
func schemaOf(dir string) []string {
	if listed := schemaOfSqlc(dir); len(listed) > 0 {
		return listed
	}
	for _, folder := range []string{"schema", "db/schema", "sql/schema", "db/schema.sql", "schema.sql", "migrations", "db/migrations", "sql/migrations", "database/migrations"} {
		if hasSQL(dir, folder) {
			return []string{folder}
		}
	}
	return nil
}

// schemaOfSqlc reads the user's own configuration of sqlc, as far as it is about MySQL.
func schemaOfSqlc(dir string) []string {
	var config struct {
		SQL []struct {
			Engine string    `yaml:"engine"`
			Schema yaml.Node `yaml:"schema"`
		} `yaml:"sql"`
	}
	for _, name := range []string{"sqlc.yaml", "sqlc.yml", "sqlc.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || fileset.Ours(data) || yaml.Unmarshal(data, &config) != nil {
			continue
		}
		var found []string
		for _, part := range config.SQL {
			if part.Engine != "mysql" {
				continue
			}
			named := part.Schema.Content
			if part.Schema.Kind == yaml.ScalarNode {
				named = []*yaml.Node{&part.Schema}
			}
			for _, n := range named {
				if p := path.Clean(n.Value); plainPath(p) && hasSQL(dir, p) && !slices.Contains(found, p) {
					found = append(found, p)
				}
			}
		}
		return found
	}
	return nil
}

// plainPath reports what can be written into events.yaml as it is.
func plainPath(p string) bool {
	return filepath.IsLocal(filepath.FromSlash(p)) && !strings.ContainsFunc(p, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
	})
}

// hasSQL reports a file or folder of SQL that is the user's.
func hasSQL(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return strings.HasSuffix(name, ".sql")
	}
	return isTheirs(dir, name, ".sql")
}

// trySchema lets sqlc read the user's tables, by the starter that names them. What it
// can't read becomes a comment.
func (a *app) trySchema(ctx context.Context, dir string, s *starter, notes []string) ([]string, error) {
	if len(s.Schema) == 0 {
		return notes, nil
	}
	events, err := s.render(starterEvents)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	why, err := a.schemaProblem(ctx, root, dir, events)
	if err != nil {
		return nil, err
	}
	if why != "" {
		s.SchemaBad = why
		notes = append(notes, fmt.Sprintf("sql.schema is left as a comment, since sqlc can't read the tables: %s", why))
	}
	return notes, nil
}

func (a *app) schemaProblem(ctx context.Context, root *os.Root, dir string, events []byte) (string, error) {
	model, problems := spec.Parse(a.config, events)
	if len(problems) == 0 {
		var sql sqlgen.Result
		if sql, problems = sqlgen.Generate(model); len(problems) == 0 {
			var err error
			_, problems, err = sqlcrun.Run(ctx, sqlcrun.Input{
				Root: root, Config: filepath.Base(a.config), Dir: filepath.ToSlash(dir), Schema: model.SQL.Schema, SQL: sql,
				Log: func(event string) { a.logf("%s", event) },
			})
			if err != nil {
				return "", err
			}
		}
	}
	if len(problems) == 0 {
		return "", nil
	}
	return first(problems), nil
}

// first is the first finding on one line.
func first(problems diag.List) string {
	d := problems.Sorted()[0]
	return strings.Join(strings.Fields(fmt.Sprintf("%s: %s", d.Pos, d.Message)), " ")
}

// workspaceNote says that a go.work above doesn't use the module, where that is so:
// the go command would then refuse to build it.
func (m goModule) workspaceNote() []string {
	if os.Getenv("GOWORK") != "" {
		return nil
	}
	for at := m.dir; ; at = filepath.Dir(at) {
		name := filepath.Join(at, "go.work")
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		work, parseErr := modfile.ParseWork(name, data, nil)
		if err != nil || parseErr != nil {
			return nil
		}
		rel, err := filepath.Rel(at, m.dir)
		if err != nil || slices.ContainsFunc(work.Use, func(u *modfile.Use) bool { return filepath.Clean(filepath.FromSlash(u.Path)) == rel }) {
			return nil
		}
		return []string{fmt.Sprintf("the workspace of %s doesn't use this module: run go work use %s there", name, filepath.ToSlash(rel))}
	}
}
