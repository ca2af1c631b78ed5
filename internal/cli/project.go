package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// project is the folder of an events.yaml. Everything the file names counts
// from there, and nothing is read or written outside it.
type project struct {
	config     string   // events.yaml, as it was named on the command line
	dir        string   // its folder, likewise
	root       *os.Root // the same
	importPath string   // of a Go package in dir
}

func openProject(config string) (*project, error) {
	info, err := os.Stat(config)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hinted{fmt.Errorf("%s does not exist", config), "write one with outboxgen init, or name it with --config"}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, hinted{fmt.Errorf("%s is not a file", config), "name the file with --config"}
	}
	dir := filepath.Dir(config)
	importPath, err := importPathOf(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &project{config: config, dir: dir, root: root, importPath: importPath}, nil
}

func (p *project) close() { p.root.Close() }

// shown names findings' files, which count from the root, as the user would
// from the working directory.
func (p *project) shown(list diag.List) diag.List {
	for i := range list {
		list[i].Pos.File = path.Join(filepath.ToSlash(p.dir), list[i].Pos.File)
	}
	return list
}

// importPathOf is the import path of a package in dir, from the nearest go.mod
// upwards.
func importPathOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if at == filepath.Dir(at) {
				return "", hinted{
					fmt.Errorf("no go.mod in %s or a folder above it: the generated packages need an import path", dir),
					"run go mod init example.com/orders, with your own module path",
				}
			}
			continue
		case err != nil:
			return "", err
		}
		module := modfile.ModulePath(data)
		if module == "" {
			return "", hinted{fmt.Errorf("%s names no module", filepath.Join(at, "go.mod")), `begin it with a line like "module example.com/orders"`}
		}
		rel, err := filepath.Rel(at, dir)
		if err != nil {
			return "", err
		}
		return path.Join(module, filepath.ToSlash(rel)), nil
	}
}
