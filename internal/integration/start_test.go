package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbtest"
)

// docs/start.md is followed to the letter: its files written, its commands run.
func TestStartGuide(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(checkout, "docs/start.md"))
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		dir := t.TempDir()
		if err := os.Symlink(checkout, filepath.Join(dir, "outboxgen")); err != nil {
			t.Fatal(err)
		}
		var out string
		for _, step := range steps(string(guide)) {
			switch {
			case step.file != "":
				name := filepath.Join(dir, "shop", step.file)
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(step.text), 0o600); err != nil {
					t.Fatal(err)
				}
			case step.language == "sh":
				out = shell(t, dir, server.DSN, step.text)
			case step.language == "":
				if out != step.text {
					t.Errorf("the guide promises %q, the command printed %q", step.text, out)
				}
			}
		}
		if !strings.Contains(out, "PUBLISHED") {
			t.Errorf("the last command printed %q", out)
		}
	})
}

// step is a code block of the guide: a file's content, commands, or what they print.
type step struct{ file, language, text string }

var block = regexp.MustCompile("(?ms)^(?:`([^`\n]+)`:\n\n)?```(\\w*)\n(.*?)^```$")

func steps(guide string) []step {
	var out []step
	for _, m := range block.FindAllStringSubmatch(guide, -1) {
		out = append(out, step{file: m[1], language: m[2], text: m[3]})
	}
	return out
}

// shell runs commands where the guide's reader would be: beside the clone at
// first, in the service's folder from then on.
func shell(t *testing.T, dir, dsn, commands string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(commands) {
		if !strings.HasPrefix(line, "git clone ") && !strings.HasPrefix(line, "export SHOP_DSN=") {
			lines = append(lines, line)
		}
	}
	if service := filepath.Join(dir, "shop"); exists(service) {
		dir = service
	}
	// Nothing in the guide takes a minute; what hangs should not take the whole run's time.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e")
	cmd.WaitDelay = time.Second // children may keep the pipes open
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(strings.Join(lines, ""))
	// Without cgo the tool is the one that `make build` has built.
	cmd.Env = append(os.Environ(), "SHOP_DSN="+dsn, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s%s", commands, err, out, stderr.String())
	}
	return string(out)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
