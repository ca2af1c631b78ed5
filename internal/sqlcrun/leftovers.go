package sqlcrun

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/outboxgen/outboxgen/internal/fileset"
)

// Leftovers are the files and folders that an earlier run wrote for this same
// events.yaml at places that it names no longer: the Go files under another
// go.out, the SQL under another sql.queries, sqlc's configuration.
//
// Several events.yaml may share a tree, and a folder may have been copied. So
// nothing counts but what a sum file says that lies where it was written, for
// the events.yaml of this name in this folder; and of the files that it names
// elsewhere only those that have been left as they were written. What is still
// wanted is among them.
func Leftovers(in Input) ([]string, error) {
	sums, err := earlierSums(in)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, s := range sums {
		if s.folder != in.SQL.Out {
			left = append(left, s.folder)
			if out := path.Dir(path.Dir(s.folder)); path.Join(out, "internal", "outboxdb") == s.folder {
				left = append(left, out)
			}
		}
		for file, digest := range s.ours {
			data, err := in.Root.ReadFile(file)
			if err == nil && fmt.Sprintf("%x", sha256.Sum256(data)) == digest {
				left = append(left, file)
			}
		}
	}
	return left, nil
}

// sum is what a sum file says about who wrote what.
type sum struct {
	config string // the events.yaml
	folder string
	ours   map[string]string // path to digest
}

// earlierSums finds the sum files of earlier runs. While one lies where it
// belongs now there is no other, as the run that wrote it removed the one
// before; without one this is the first run, or go.out has changed.
func earlierSums(in Input) ([]sum, error) {
	if s, ok := readSum(in, in.SQL.Out); ok {
		return []sum{s}, nil
	}
	var sums []sum
	err := fs.WalkDir(in.Root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil: // a folder that can't be read holds nothing that we wrote
			return fs.SkipDir
		case e.IsDir() && p != "." && isElsewhere(in, p):
			return fs.SkipDir
		case e.Name() == sumFile:
			if s, ok := readSum(in, path.Dir(p)); ok {
				sums = append(sums, s)
			}
		}
		return nil
	})
	return sums, err
}

// isElsewhere reports folders that no output of ours goes to: those that the
// go command leaves out of a module's packages.
func isElsewhere(in Input, dir string) bool {
	name := path.Base(dir)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	switch name {
	case "vendor", "node_modules", "testdata":
		return true
	}
	_, err := in.Root.Lstat(path.Join(dir, "go.mod"))
	return !errors.Is(err, fs.ErrNotExist)
}

// readSum is false for a sum file of another events.yaml, or that was copied
// from another folder.
func readSum(in Input, folder string) (sum, bool) {
	s, ok := parseSum(in, folder)
	return s, ok && s.config == in.Config && s.config != "" && s.folder == folder
}

// parseSum reads the sum file in a folder, whoever's it is.
func parseSum(in Input, folder string) (sum, bool) {
	s := sum{ours: map[string]string{}}
	data, err := in.Root.ReadFile(path.Join(folder, sumFile))
	if err != nil || !fileset.Ours(data) {
		return s, false
	}
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case sumConfig:
			s.config = rest
		case sumFolder:
			s.folder = rest
		case sumOurs:
			digest, file, _ := strings.Cut(rest, " ")
			s.ours[file] = digest
		}
	}
	return s, true
}
