package dbserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// CacheVar names the environment variable that moves the cache folder.
const CacheVar = "OUTBOXGEN_CACHE"

// CacheDir is the folder for downloaded servers and initialised data
// folders: $OUTBOXGEN_CACHE, else outboxgen in the user's cache folder, else
// (no HOME, as in some CI jobs) a private folder beside the temporary files.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("cache folder: %w", err)
		}
		return abs, os.MkdirAll(abs, 0o755)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(dir, "outboxgen")
		return dir, os.MkdirAll(dir, 0o755)
	}
	// The temporary folder is everybody's: programs are started from the
	// cache, so one that somebody else made there must not be trusted.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("outboxgen-cache-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUs(info) {
		return "", fmt.Errorf("cache folder %s belongs to somebody else: set %s to a folder of your own", dir, CacheVar)
	}
	return dir, nil
}

// checkCachePath refuses the two characters that end an entry of the
// dynamic loader's --library-path.
func checkCachePath(dir string) error {
	if strings.ContainsAny(dir, ":;") {
		return fmt.Errorf("cache folder %s: its path may not have ':' or ';' in it: set %s to another folder", dir, CacheVar)
	}
	return nil
}

// withLock runs fn while it holds path, so that two processes never fill the
// same part of the cache. wait is called once, before a wait begins.
func withLock(ctx context.Context, path string, wait func(), fn func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // gives the lock back, too

	// Asked again and again rather than waited for: a blocked flock does not
	// see that ctx has ended.
	for waited := false; ; waited = true {
		ok, err := tryLock(file)
		if err != nil {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if ok {
			return fn()
		}
		if !waited && wait != nil {
			wait()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
