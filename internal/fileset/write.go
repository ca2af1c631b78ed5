package fileset

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"
)

// Write brings the tree to what is wanted: it writes what is changed or
// missing and removes what is stale, and leaves everything else alone, the
// times of unchanged files included. All new content is written beside its
// target before the first target is replaced; when anything fails, what was
// done is undone. With Problems in the report nothing was written.
//
// A context that ends stops Write only before the first replacement.
func Write(ctx context.Context, root *os.Root, want []File, owned []string) (Report, error) {
	report, err := Compare(root, want, owned)
	if err != nil || report.Clean() || len(report.Problems) > 0 {
		return report, err
	}
	data := map[string][]byte{}
	for _, f := range want {
		data[f.Path] = f.Data
	}
	c := &change{root: root, rename: root.Rename}
	if err := c.apply(ctx, report, data); err != nil {
		if undone := c.undo(); undone != nil {
			err = fmt.Errorf("%w; and the files written before it could not all be put back: %w", err, undone)
		}
		return Report{}, err
	}
	return report, nil
}

// change is a set of replacements under way.
type change struct {
	root   *os.Root
	rename func(from, to string) error // replaced in tests

	temps []string   // written, not yet at their place
	dirs  []string   // made, parents first
	done  []original // replaced, created or removed, in order
}

// original is what was at a path before.
type original struct {
	path    string
	existed bool
	data    []byte
	mode    fs.FileMode
	time    time.Time
}

func (c *change) apply(ctx context.Context, r Report, data map[string][]byte) error {
	before := make(map[string]original)
	for _, p := range append(append([]string{}, r.Changed...), r.Stale...) {
		o, err := c.read(p)
		if err != nil {
			return err
		}
		before[p] = o
	}
	staged := map[string]string{}
	targets := append(append([]string{}, r.Changed...), r.Missing...)
	for _, p := range targets {
		temp, err := c.stage(p, data[p], before[p].mode)
		if err != nil {
			return fmt.Errorf("write %s: %w", p, err)
		}
		staged[p] = temp
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, p := range targets {
		if err := c.rename(staged[p], p); err != nil {
			return fmt.Errorf("write %s: %w", p, err)
		}
		o, existed := before[p]
		o.path, o.existed = p, existed
		c.done = append(c.done, o)
	}
	for _, p := range r.Stale {
		if err := c.root.Remove(p); err != nil {
			return fmt.Errorf("remove %s: %w", p, err)
		}
		c.done = append(c.done, before[p])
	}
	return nil
}

func (c *change) read(p string) (original, error) {
	info, err := c.root.Lstat(p)
	if err != nil {
		return original{}, err
	}
	data, err := c.root.ReadFile(p)
	return original{path: p, existed: true, data: data, mode: info.Mode().Perm(), time: info.ModTime()}, err
}

// stage writes data beside p. Tools that read folders of Go or SQL pass over
// names that begin with a dot; should we be killed, the next run takes the
// file for a stale one of ours. A mode of zero is that of a new file.
func (c *change) stage(p string, data []byte, mode fs.FileMode) (string, error) {
	if err := c.makeDir(path.Dir(p)); err != nil {
		return "", err
	}
	temp := path.Join(path.Dir(p), ".outboxgen-"+rand.Text()+".tmp")
	f, err := c.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	c.temps = append(c.temps, temp)
	_, err = f.Write(data)
	if mode != 0 && err == nil {
		err = f.Chmod(mode) // not through the umask: the file had this mode
	}
	return temp, errors.Join(err, f.Close())
}

// makeDir makes a folder and its parents, and remembers those that were not
// there.
func (c *change) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := c.root.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	err := c.root.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist): // somebody else was faster
		return nil
	case err == nil:
		c.dirs = append(c.dirs, dir)
	}
	return err
}

// undo puts back what was there before, as far as the file system lets it.
func (c *change) undo() error {
	var failed error
	for i := len(c.done) - 1; i >= 0; i-- {
		if err := c.restore(c.done[i]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.done[i].path, err))
		}
	}
	for _, temp := range c.temps {
		if err := c.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", temp, err))
		}
	}
	for i := len(c.dirs) - 1; i >= 0; i-- {
		_ = c.root.Remove(c.dirs[i]) // stays when somebody has put a file there
	}
	return failed
}

func (c *change) restore(o original) error {
	if !o.existed {
		return c.root.Remove(o.path)
	}
	temp, err := c.stage(o.path, o.data, o.mode)
	if err == nil {
		err = c.root.Rename(temp, o.path)
	}
	if err == nil {
		err = c.root.Chtimes(o.path, o.time, o.time)
	}
	return err
}
