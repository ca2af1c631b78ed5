package compat_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the expected output of the golden cases")

// A case is a folder: base.yaml or base.lock.yaml, current.yaml which breaks it with what
// stderr.txt says, and allowed.yaml, the nearest change that breaks nothing.
func TestCases(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			base := load(t, dir, "base.yaml")
			if base == nil {
				base = load(t, dir, "base.lock.yaml")
			}
			if current := load(t, dir, "current.yaml"); current != nil {
				golden(t, filepath.Join(dir, "stderr.txt"), text(t, compat.Compare(base, current)))
			}
			if allowed := load(t, dir, "allowed.yaml"); allowed != nil {
				if problems := compat.Compare(base, allowed); len(problems) > 0 {
					t.Errorf("allowed.yaml breaks:\n%s", text(t, problems))
				}
			}
			if problems := compat.Compare(base, base); len(problems) > 0 && len(base.Retired.Events)+len(base.Retired.Consumers) == 0 {
				t.Errorf("the base breaks itself:\n%s", text(t, problems))
			}
		})
	}
}

// Every rule has a case that finds it and one that is the nearest to it.
func TestEveryRuleHasACase(t *testing.T) {
	for _, rule := range compat.Rules() {
		found, err := os.ReadFile(filepath.Join("testdata", string(rule), "stderr.txt"))
		if err != nil || !strings.Contains(string(found), "["+string(rule)+"]") {
			t.Errorf("%s: no case finds it: %v", rule, err)
		}
		if _, err := os.Stat(filepath.Join("testdata", string(rule), "allowed.yaml")); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// The table of the documentation is the list of the rules.
func TestEveryRuleIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range compat.Rules() {
		row := "\n| `" + string(rule) + "` |"
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/compatibility.md has no row of %s", rule)
		}
	}
}

func load(t *testing.T, dir, name string) *spec.Model {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	parse := spec.Parse
	if strings.HasSuffix(name, ".lock.yaml") {
		parse = spec.ParseLock
	}
	model, problems := parse(name, src)
	if len(problems) > 0 {
		t.Fatalf("%s is refused:\n%s", name, text(t, problems))
	}
	return model
}

func text(t *testing.T, problems diag.List) string {
	t.Helper()
	for _, d := range problems {
		known := func(r compat.Rule) bool { return string(r) == d.Rule }
		if len(d.Message) > 0 && strings.ContainsAny(d.Message, "\n") || d.Hint == "" && slices.ContainsFunc(compat.Rules(), known) {
			t.Errorf("a message of one line and a hint, please: %+v", d)
		}
	}
	var b strings.Builder
	if err := diag.Text(&b, problems.Sorted()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
