package dbserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Unpack downloads the package pkg of the machine's own release, with all that it
// depends on, and unpacks those packages of it for which keep holds, by their file's
// name, into a folder of cache, which it returns. A second call finds it there. It is for
// servers other than databases, on Debian and Ubuntu; nothing gets installed. progress
// gets one plain line a step. It may be nil.
func Unpack(ctx context.Context, pkg, cache string, keep func(deb string) bool, progress func(string)) (string, error) {
	if progress == nil {
		progress = func(string) {}
	}
	if err := checkCachePath(cache); err != nil {
		return "", err
	}
	plan, err := planApt("/", Flavor(pkg))
	if err != nil {
		return "", err
	}
	choose := func(found string) string {
		if found == "" {
			return ""
		}
		return pkg
	}
	return plan.cached(ctx, cache, func(ctx context.Context, dir string, progress func(string)) error {
		return plan.unpack(ctx, dir, "^"+regexp.QuoteMeta(pkg)+"$", choose, keep, progress)
	}, progress)
}

// cached is the plan's folder in the cache, filled by download unless it is there.
func (p aptPlan) cached(ctx context.Context, cache string, download func(context.Context, string, func(string)) error, progress func(string)) (string, error) {
	dir := filepath.Join(cache, "servers", p.name())
	wait := func() { progress(fmt.Sprintf("%v: waiting for another process that is downloading it", p.flavor)) }
	err := withLock(ctx, dir+".lock", wait, func() error {
		if _, err := os.Stat(dir); err == nil {
			return nil // somebody else was first
		}
		partial := dir + ".partial"
		if err := os.RemoveAll(partial); err != nil {
			return err
		}
		if err := download(ctx, partial, progress); err != nil {
			_ = os.RemoveAll(partial) // the next try does it
			return err
		}
		return os.Rename(partial, dir)
	})
	return dir, err
}
