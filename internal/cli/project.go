package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lockfile"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
)

// project is the folder of an events.yaml. Everything the file names counts
// from there, and nothing is read or written outside it.
type project struct {
	config string   // events.yaml, as it was named on the command line
	dir    string   // its folder, likewise
	root   *os.Root // the same
	module goModule
}

func openProject(config string) (*project, error) {
	if err := isConfig(config); err != nil {
		return nil, err
	}
	dir := filepath.Dir(config)
	module, err := moduleOf(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &project{config: config, dir: dir, root: root, module: module}, nil
}

// isConfig says what is wrong with a config that is no file.
func isConfig(config string) error {
	if config == "" {
		return hinted{errors.New("--config is empty"), "name the file, or leave the flag out for " + defaultConfig}
	}
	info, err := os.Stat(config)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hinted{fmt.Errorf("%s does not exist", config), missingConfig(config)}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return hinted{fmt.Errorf("%s is not a file", config), "name the file with --config"}
	}
	return nil
}

// missingConfig says which file beside it may have been meant: events.yml, event.yaml.
func missingConfig(config string) string {
	const hint = "write one with outboxgen init, or name it with --config"
	found, err := filepath.Glob(filepath.Join(filepath.Dir(config), "*.y*ml"))
	if err != nil {
		return hint
	}
	near := diag.Nearest(config, found)
	if near == "" {
		return hint
	}
	return fmt.Sprintf("did you mean %s? name it with --config", near)
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

// inTheWay are the targets that must not be written, with hints for those of our files that
// only lack their first line.
func (p *project) inTheWay(list diag.List) diag.List {
	for i, d := range list {
		switch {
		case d.Rule != "not-generated":
		case lockfile.IsName(d.Pos.File):
			list[i].Hint = "put its first line back: " + lockfile.FirstLine
		case sqlcrun.IsSum(d.Pos.File):
			list[i].Hint = "delete it: outboxgen generate makes it anew"
		}
	}
	return p.shown(list)
}

// goModule is the Go module of a folder.
type goModule struct {
	importPath string // of a package in the folder
	dir        string // of go.mod, absolute
	goMod      []byte
}

// moduleOf finds the nearest go.mod upwards.
func moduleOf(dir string) (goModule, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return goModule{}, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if at == filepath.Dir(at) {
				return goModule{}, hinted{
					fmt.Errorf("no go.mod in %s or a folder above it: the generated packages need an import path", dir),
					"run go mod init example.com/orders, with your own module path",
				}
			}
			continue
		case err != nil:
			return goModule{}, err
		}
		module := modfile.ModulePath(data)
		if module == "" {
			return goModule{}, hinted{fmt.Errorf("%s names no module", filepath.Join(at, "go.mod")), `begin it with a line like "module example.com/orders"`}
		}
		rel, err := filepath.Rel(at, dir)
		if err != nil {
			return goModule{}, err
		}
		return goModule{path.Join(module, filepath.ToSlash(rel)), at, data}, nil
	}
}

// hasTool reports a tool line of go.mod. One that can't be read has none.
func (m goModule) hasTool(tool string) bool {
	f, err := modfile.Parse("go.mod", m.goMod, nil)
	return err == nil && slices.ContainsFunc(f.Tool, func(t *modfile.Tool) bool { return t.Path == tool })
}
