// Package chromium finds a Chromium for tests, and starts it without a window.
package chromium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// PathVar names the environment variable that holds the path of a browser of one's own.
const PathVar = "OUTBOXGEN_CHROMIUM"

// Browser is a program that can be started.
type Browser struct {
	Path string
	Env  []string // name=value, beside the process's own
}

// UnavailableError says that no Chromium can be had here, and what the reader can do.
type UnavailableError struct{ Reason string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf(`no Chromium can be had on this machine: %s
Do one of these:
  - put chromium, chromium-browser or google-chrome on PATH, or its path into %s
    (on Ubuntu the package is a snap, which apt can't unpack: sudo snap install chromium)
  - on Debian, let apt reach its archive: the package chromium is downloaded into the cache folder,
    not installed (100 MB)`, e.Reason, PathVar)
}

// Find returns the browser of PathVar, else one on PATH, else the one in the cache folder,
// into which it is downloaded where that is possible. progress gets one plain line a
// step. It may be nil.
func Find(ctx context.Context, progress func(string)) (Browser, error) {
	if path := os.Getenv(PathVar); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return Browser{}, fmt.Errorf("%s names no program: %w", PathVar, err)
		}
		return Browser{Path: path}, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return Browser{Path: path}, nil
		}
	}
	cache, err := dbserver.CacheDir()
	if err != nil {
		return Browser{}, err
	}
	dir, err := dbserver.Unpack(ctx, "chromium", cache, needed, progress)
	if err != nil {
		if ctx.Err() != nil {
			return Browser{}, fmt.Errorf("download chromium: %w", err)
		}
		return Browser{}, &UnavailableError{err.Error()}
	}
	browser, err := below(dir)
	if err != nil {
		return Browser{}, fmt.Errorf("chromium was downloaded but is not as expected; remove %s to try anew: %w", dir, err)
	}
	return browser, nil
}

// needed leaves out what the machine has itself, of the same release: its C library and
// what belongs to it.
func needed(deb string) bool {
	for _, own := range []string{"libc6_", "libc-bin_", "libgcc-s1_", "gcc-", "dpkg_", "perl", "libperl", "debconf_"} {
		if strings.HasPrefix(deb, own) {
			return false
		}
	}
	return true
}

// below is the browser in a folder of the cache, with the libraries and fonts beside it.
func below(dir string) (Browser, error) {
	b := Browser{Path: filepath.Join(dir, "usr/lib/chromium/chromium")}
	if _, err := os.Stat(b.Path); err != nil {
		return b, err
	}
	var libs []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/pulseaudio"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return b, err
		}
		libs = append(libs, found...)
	}
	if len(libs) == 0 {
		return b, errors.New("there are no libraries")
	}
	fonts, err := writeFonts(dir)
	if err != nil {
		return b, err
	}
	b.Env = []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":"), "FONTCONFIG_FILE=" + fonts}
	return b, nil
}

// writeFonts writes a configuration of fonts that knows those of the cache alone, so that
// pages look the same on every machine.
func writeFonts(dir string) (string, error) {
	path := filepath.Join(dir, "outboxgen-fonts.conf")
	text := fmt.Sprintf(`<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>
`, filepath.Join(dir, "usr/share/fonts"), filepath.Join(dir, "font-cache"))
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return path, nil
	}
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(temporary, path)
}
