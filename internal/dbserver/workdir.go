package dbserver

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A workDir is one server's folder. Its lock file is held by us and, through
// inheritance, by the server: a lock that nobody holds marks a folder that
// was left behind by a kill -9.
type workDir struct {
	path string
	lock *os.File
}

func newWorkDir(parent string, f Flavor) (*workDir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	prefix := fmt.Sprintf("outboxgen-%s-", string(f))
	sweep(parent, prefix)
	path, err := os.MkdirTemp(parent, prefix) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a folder for %v: %w", f, err)
	}
	// The server tells paths back with links resolved.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	w := &workDir{path: path}
	w.lock, err = os.OpenFile(w.join("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		_, err = tryLock(w.lock)
	}
	for _, sub := range []string{"files", "tmp"} {
		if err == nil {
			err = os.Mkdir(w.join(sub), 0o700)
		}
	}
	if err != nil {
		_ = w.remove()
		return nil, fmt.Errorf("make a folder for %v: %w", f, err)
	}
	return w, nil
}

func (w *workDir) join(name string) string { return filepath.Join(w.path, name) }

func (w *workDir) remove() error {
	if w.lock != nil {
		w.lock.Close()
	}
	return os.RemoveAll(w.path)
}

// sweep removes folders of dead servers, some 200 MB each. It is a courtesy:
// what it cannot read or remove it leaves.
func sweep(parent, prefix string) {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*", "lock"))
	if err != nil {
		return
	}
	for _, name := range left {
		info, err := os.Lstat(name)
		// A young one may not have been locked yet.
		if err != nil || !info.Mode().IsRegular() || !ownedByUs(info) || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if ok, err := tryLock(file); err == nil && ok {
			os.RemoveAll(filepath.Dir(name))
		}
		file.Close()
	}
}
