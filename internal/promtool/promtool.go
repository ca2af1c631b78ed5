// Package promtool finds Prometheus's promtool, which checks rules and tests them.
package promtool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// UnavailableError says that no promtool can be had here, and what the reader can do.
type UnavailableError struct{ Reason string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf(`no promtool can be had on this machine: %s
Do one of these:
  - put Prometheus's promtool on PATH
  - on Debian or Ubuntu, let apt reach its archive: the package prometheus is downloaded into the
    cache folder, not installed`, e.Reason)
}

// Find returns the program: the one on PATH, else one in the cache folder, into which it is
// downloaded where that is possible. progress gets one plain line a step. It may be nil.
func Find(ctx context.Context, progress func(string)) (string, error) {
	if path, err := exec.LookPath("promtool"); err == nil {
		return path, nil
	}
	cache, err := dbserver.CacheDir()
	if err != nil {
		return "", err
	}
	keep := func(deb string) bool { return strings.HasPrefix(deb, "prometheus_") }
	dir, err := dbserver.Unpack(ctx, "prometheus", cache, keep, progress)
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("download promtool: %w", err)
		}
		return "", &UnavailableError{err.Error()}
	}
	path := filepath.Join(dir, "usr", "bin", "promtool")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("prometheus was downloaded but is not as expected; remove %s to try anew: %w", dir, err)
	}
	return path, nil
}
