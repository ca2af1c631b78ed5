package fileset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Report says how the tree differs from what should be there. Paths are
// relative to the root and sorted.
type Report struct {
	Changed   []string // there, with other content
	Missing   []string // not there
	Stale     []string // ours, and no longer wanted
	Unchanged int      // as they should be

	// Problems are targets that must not be written: they are not ours, or lie
	// outside the root. Their positions name the path from the root. While
	// there is one, Write changes nothing.
	Problems diag.List
}

// Clean reports that there is nothing to do and nothing in the way.
func (r Report) Clean() bool {
	return len(r.Changed)+len(r.Missing)+len(r.Stale)+len(r.Problems) == 0
}

// Compare looks for the wanted files below root, and in the owned folders (not
// in folders within them) and files for some of ours that are no longer
// wanted. It changes nothing. All access goes through root, so that neither a
// path nor a link leads out of it.
func Compare(root *os.Root, want []File, owned []string) (Report, error) {
	var r Report
	if err := checkWanted(want); err != nil {
		return r, err
	}
	for _, f := range want {
		state, err := inspect(root, f)
		var refused *refusal
		switch {
		case errors.As(err, &refused):
			r.Problems.Add(diag.Diagnostic{
				Pos: diag.Pos{File: f.Path}, Rule: refused.rule, Message: refused.message, Hint: refused.hint,
			})
		case err != nil:
			return Report{}, err
		case state == missing:
			r.Missing = append(r.Missing, f.Path)
		case state == changed:
			r.Changed = append(r.Changed, f.Path)
		default:
			r.Unchanged++
		}
	}
	stale, err := findStale(root, want, owned)
	if err != nil {
		return Report{}, err
	}
	r.Stale = stale
	slices.Sort(r.Changed)
	slices.Sort(r.Missing)
	r.Problems = r.Problems.Sorted()
	return r, nil
}

// checkWanted refuses what could not be generated twice: an unusable path, two
// files of one path, a file that would not be known as ours the next time.
func checkWanted(want []File) error {
	seen := map[string]string{}
	for _, f := range want {
		folded := strings.ToLower(f.Path) // some file systems fold case
		switch {
		case !fs.ValidPath(f.Path) || f.Path == ".":
			return fmt.Errorf("internal: %q is no path below the folder of events.yaml", f.Path)
		case seen[folded] != "":
			return fmt.Errorf("internal: both %s and %s are to be written", seen[folded], f.Path)
		case !f.Once && !Ours(f.Data):
			return fmt.Errorf("internal: %s lacks the header of generated files", f.Path)
		}
		seen[folded] = f.Path
	}
	return nil
}

type state int

const (
	missing state = iota
	changed
	same
)

// refusal is why a target must not be written.
type refusal struct{ rule, message, hint string }

func (r *refusal) Error() string { return r.message }

// inspect says how a wanted file is in the tree.
func inspect(root *os.Root, f File) (state, error) {
	info, err := root.Lstat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Lstat doesn't tell a link out of the root from nothing behind it
		// until something is opened there.
		return missing, checkParent(root, path.Dir(f.Path))
	case err != nil:
		return missing, refused(err)
	case f.Once:
		return same, nil // the user's, whatever it is
	case info.Mode()&fs.ModeSymlink != 0:
		return missing, &refusal{"target-is-link", "is a link, which would be replaced by a file", "remove the link"}
	case !info.Mode().IsRegular():
		return missing, &refusal{"target-not-a-file", "is no file, and a file is to be written there", "move it away, or change the paths in events.yaml"}
	}
	data, err := root.ReadFile(f.Path)
	switch {
	case err != nil:
		return missing, refused(err)
	case bytes.Equal(data, f.Data):
		return same, nil
	case !Ours(data):
		return missing, &refusal{
			"not-generated", "was not written by outboxgen, and would be overwritten",
			"move it away, or change the paths in events.yaml",
		}
	}
	return changed, nil
}

// checkParent follows the folder of a file that is to be written.
func checkParent(root *os.Root, dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := root.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if link, err := root.Lstat(dir); err == nil && link.Mode()&fs.ModeSymlink != 0 {
				return &refusal{"target-is-link", fmt.Sprintf("is to be written in %s, a link to nothing", dir), "remove the link"}
			}
			continue
		case err != nil:
			return refused(err)
		case !info.IsDir():
			return &refusal{
				"target-not-a-folder", fmt.Sprintf("is to be written in %s, which is no folder", dir),
				"move it away, or change the paths in events.yaml",
			}
		}
		return nil
	}
	return nil
}

// refused tells an error that is about the user's tree from one of the system.
func refused(err error) error {
	switch {
	case strings.Contains(err.Error(), "path escapes"): // package os has no name for it
		return &refusal{
			"leads-out", "leads through a link out of the folder of events.yaml",
			"replace the link by a folder, or change the paths in events.yaml",
		}
	case errors.Is(err, syscall.ENOTDIR):
		return &refusal{
			"target-not-a-folder", "is to be written below a file",
			"move that file away, or change the paths in events.yaml",
		}
	case errors.Is(err, syscall.ELOOP):
		return &refusal{"target-is-link", "leads through links that lead back to themselves", "remove those links"}
	}
	return err
}

func isRefusal(err error) bool { return errors.As(err, new(*refusal)) }

// findStale lists the files with our header in owned that are not wanted.
func findStale(root *os.Root, want []File, owned []string) ([]string, error) {
	wanted := map[string]string{} // by lower-case path
	for _, f := range want {
		wanted[strings.ToLower(f.Path)] = f.Path
	}
	var stale []string
	consider := func(p string) error {
		if w, ok := wanted[strings.ToLower(p)]; ok && (w == p || sameFile(root, w, p)) {
			return nil
		}
		data, err := readHead(root, p)
		if err == nil && Ours(data) {
			stale = append(stale, p)
		}
		return err
	}
	for _, p := range owned {
		info, err := root.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist), err != nil && isRefusal(refused(err)):
			continue // nothing of ours there; a wanted file in it is reported by inspect
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			if err := consider(p); err != nil {
				return nil, err
			}
			continue
		}
		entries, err := fs.ReadDir(root.FS(), p)
		if err != nil {
			if isRefusal(refused(err)) {
				continue
			}
			return nil, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := consider(path.Join(p, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(stale)
	return slices.Compact(stale), nil
}

// sameFile is for file systems that fold case, on which a file may be wanted
// under a name that differs from the listed one.
func sameFile(root *os.Root, a, b string) bool {
	x, errX := root.Lstat(a)
	y, errY := root.Lstat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// readHead reads as much of a file as its header may take.
func readHead(root *os.Root, p string) ([]byte, error) {
	f, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 8<<10))
}
