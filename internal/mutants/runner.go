package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutant is one way to break the code, and the test that has to notice.
type mutant struct {
	name     string // what is broken
	file     string // from the top of the repository
	old, new string // old is there exactly once
	target
}

// target is a test: a pattern of go test -run.
type target struct{ pkg, test string }

// patience is for one test run on broken code, in addition to what it takes on sound code. A
// mutant that hangs is found out by it, too.
const patience = 30 * time.Second

type runner struct {
	sound map[target]trial // the tests on the code as it is
}

// trial is a test run that has to pass.
type trial struct {
	took time.Duration
	err  error
}

// try returns how the mutant was found out. The error says why it wasn't.
func (r *runner) try(m mutant) (string, error) {
	sound := r.onSound(m.target)
	if sound.err != nil {
		return "", sound.err
	}
	overlay, remove, err := m.overlay()
	if err != nil {
		return "", err
	}
	defer remove()
	out, err := goTest(m.target, 4*sound.took+patience, "-overlay", overlay)
	if err == nil { // where things come in random order, breakage may stay hidden once
		out, err = goTest(m.target, 20*sound.took+patience, "-overlay", overlay, "-count=5")
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", errors.New("the test passes")
	case !errors.As(err, &exit):
		return "", err
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("it doesn't compile:\n%s", tail(out))
	}
	return firstFailure(out), nil
}

func (r *runner) onSound(t target) trial {
	if known, ok := r.sound[t]; ok {
		return known
	}
	began := time.Now()
	out, err := goTest(t, 10*time.Minute)
	switch {
	case err != nil:
		err = fmt.Errorf("the test fails on sound code: %w\n%s", err, tail(out))
	case bytes.Contains(out, []byte("no tests to run")):
		err = errors.New("there is no such test")
	}
	r.sound[t] = trial{time.Since(began), err}
	return r.sound[t]
}

func goTest(t target, timeout time.Duration, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout", timeout.String(), "-run", t.test}, flags...)
	return exec.Command("go", append(args, "./"+t.pkg)...).CombinedOutput() //nolint:gosec // our own table
}

// overlay writes the broken file and the JSON that puts it in place of the sound one.
func (m mutant) overlay() (path string, remove func(), err error) {
	broken, err := m.apply()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "outboxgen-mutant-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, filepath.Base(m.file))
	path = filepath.Join(dir, "overlay.json")
	sound, err := filepath.Abs(m.file)
	if err == nil {
		err = os.WriteFile(file, broken, 0o600)
	}
	if err == nil {
		var text []byte
		text, err = json.Marshal(map[string]map[string]string{"Replace": {sound: file}})
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

func (m mutant) apply() ([]byte, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s has what is to be replaced %d times, want once", m.file, n)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

func firstFailure(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if name, failed := strings.CutPrefix(line, "--- FAIL: "); failed {
			return name
		}
		if strings.HasPrefix(line, "panic:") {
			return line
		}
	}
	return "its test"
}

func tail(out []byte) []byte {
	const most = 2000
	return out[max(0, len(out)-most):]
}
