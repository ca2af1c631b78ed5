package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/migration"
)

// migrationFlags are those of the commands that print statements.
type migrationFlags struct {
	tool    string
	out     string // folder; empty for stdout
	name    string
	version string // empty for the one behind those in the folder
}

func (m *migrationFlags) register(flags *pflag.FlagSet, name string) {
	flags.StringVar(&m.tool, "for", string(migration.Plain), "whose migration it becomes: "+toolNames())
	flags.StringVar(&m.out, "out", "", "write new files in this folder, instead of printing")
	flags.StringVar(&m.name, "name", name, "the migration's name in the files' names, with --out")
	flags.StringVar(&m.version, "version", "", "the migration's version in the files' names, with --out (default: the next one, as those in the folder are spelled)")
}

func toolNames() string {
	var names []string
	for _, tool := range migration.Tools() {
		names = append(names, string(tool))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

var (
	fileName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	fileVersion = regexp.MustCompile(`^[0-9]{1,18}$`)
)

func (m *migrationFlags) check() error {
	switch {
	case !slices.Contains(migration.Tools(), migration.Tool(m.tool)):
		return hinted{fmt.Errorf("unknown migration tool %q", m.tool), "use " + toolNames()}
	case !fileName.MatchString(m.name):
		return hinted{fmt.Errorf("%q can't be a migration's name", m.name), "use letters, digits, _ and -"}
	case m.version != "" && !fileVersion.MatchString(m.version):
		return hinted{fmt.Errorf("%q can't be a migration's version", m.version), "use digits, such as 000012 or 20060102150405"}
	case m.version != "" && m.out == "":
		return hinted{errors.New("--version is part of a file's name, and nothing is written"), "name the folder with --out"}
	}
	return nil
}

// emit prints a migration, or writes its files.
func (a *app) emit(m migrationFlags, up, down string, print func(string) error) error {
	tool := migration.Tool(m.tool)
	if m.out == "" {
		files := migration.Files(tool, "", m.name, up, down)
		if len(files) > 1 {
			return hinted{fmt.Errorf("a migration of %s has a file for each direction", tool), "name their folder with --out"}
		}
		return print(files[0].Text)
	}
	names, err := namesIn(m.out)
	if err != nil {
		return hinted{err, "--out names the folder of your migrations"}
	}
	version := m.version
	if version == "" {
		version = migration.NextVersion(names, time.Now())
	}
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return err
	}
	return a.writeMigration(m.out, migration.Files(tool, version, m.name, up, down))
}

// namesIn are the names in a folder: none when it isn't there yet.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// writeMigration writes all the files or none.
func (a *app) writeMigration(dir string, files []migration.File) error {
	var wrote []string
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		if err := writeNew(name, []byte(f.Text)); err != nil {
			for _, w := range wrote {
				err = errors.Join(err, os.Remove(w))
			}
			if errors.Is(err, fs.ErrExist) {
				return hinted{fmt.Errorf("%s exists", name), "take another --name or --version: no file is overwritten"}
			}
			return err
		}
		wrote = append(wrote, name)
	}
	for _, name := range wrote {
		a.printf("outboxgen: wrote %s\n", name)
	}
	return nil
}

// print writes what was asked for, whatever the format of findings is.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}
