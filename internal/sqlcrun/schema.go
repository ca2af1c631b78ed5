package sqlcrun

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// schemaFile is one of the user's DDL files.
type schemaFile struct {
	path string // from the root
	data []byte
}

// maxSchema bounds what is read of one file: a dump with its rows is not a schema.
const maxSchema = 16 << 20

// readSchema reads the files that sqlc will read: those named, and of a folder
// those that sqlc takes (sqlpath.Glob in its source).
func readSchema(in Input) ([]schemaFile, diag.List) {
	var files []schemaFile
	var problems diag.List
	first := map[string]spec.Name{}
	for _, name := range in.Schema {
		paths, err := schemaPaths(in, name.Text)
		if err == nil && len(paths) == 0 {
			err = errors.New("holds no .sql file")
		}
		for _, p := range paths {
			if earlier, twice := first[p]; twice { // sqlc would read it twice
				d := at(name, "duplicate-schema", fmt.Sprintf("%q is read twice", p), "name the file or its folder, not both")
				d.Related = []diag.Related{{Pos: earlier.Pos, Message: "first named here"}}
				problems.Add(d)
				continue
			}
			first[p] = name
			var data []byte
			if data, err = readCapped(in, p); err != nil {
				break
			}
			files = append(files, schemaFile{p, data})
		}
		if err != nil {
			problems.Add(schemaProblem(in, name, err))
		}
	}
	return files, problems
}

func schemaPaths(in Input, name string) ([]string, error) {
	info, err := in.Root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if !takes(path.Base(name)) {
			return nil, errors.New("is not a .sql file that sqlc reads")
		}
		return []string{name}, nil
	}
	entries, err := fs.ReadDir(in.Root.FS(), name)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if takes(e.Name()) {
			paths = append(paths, path.Join(name, e.Name()))
		}
	}
	return paths, nil
}

// takes reports whether sqlc reads a file of that name: it passes over hidden
// files and the downward steps of golang-migrate.
func takes(name string) bool {
	return strings.HasSuffix(name, ".sql") && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".down.sql")
}

func readCapped(in Input, name string) ([]byte, error) {
	info, err := in.Root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a file")
	case info.Size() > maxSchema:
		return nil, fmt.Errorf("is larger than %d MiB", maxSchema>>20)
	}
	return in.Root.ReadFile(name)
}

// schemaProblem says at events.yaml's entry why the file can't be used.
func schemaProblem(in Input, name spec.Name, err error) diag.Diagnostic {
	d := at(name, "unreadable-schema", "", "")
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.Message = fmt.Sprintf("the schema %q does not exist", name.Text)
		d.Hint = "paths count from the folder of events.yaml"
		if near := diag.Nearest(name.Text, neighbours(in, name.Text)); near != "" {
			d.Hint = fmt.Sprintf("did you mean %q?", near)
		}
	case strings.Contains(err.Error(), "path escapes"): // package os has no name for it
		d.Message = fmt.Sprintf("the schema %q leads through a link out of the folder of events.yaml", name.Text)
		d.Hint = "copy the file into the folder"
	case errors.As(err, &pathErr):
		d.Message = fmt.Sprintf("the schema %q can't be read: %v", name.Text, pathErr.Err)
	default:
		d.Message = fmt.Sprintf("the schema %q %v", name.Text, err)
		d.Hint = "name .sql files, or folders that hold them"
	}
	return d
}

// neighbours are the files beside one that isn't there.
func neighbours(in Input, name string) []string {
	entries, err := fs.ReadDir(in.Root.FS(), path.Dir(name))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".sql") {
			out = append(out, path.Join(path.Dir(name), e.Name()))
		}
	}
	return out
}

// at is a finding at a name of events.yaml.
func at(n spec.Name, rule, message, hint string) diag.Diagnostic {
	end := n.Pos
	end.Col += len(n.Text)
	return diag.Diagnostic{Pos: n.Pos, End: end, Rule: rule, Message: message, Hint: hint}
}
