package spec

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/diag"
)

var update = flag.Bool("update", false, "rewrite the expected output of the golden cases")

func TestGood(t *testing.T) {
	eachCase(t, "good", func(t *testing.T, dir string) {
		model, problems := parseCase(t, dir)
		if len(problems) > 0 {
			t.Fatalf("the file should be good:\n%s", text(problems))
		}
		golden(t, filepath.Join(dir, "model.txt"), dump(model))
	})
}

func TestBad(t *testing.T) {
	eachCase(t, "bad", func(t *testing.T, dir string) {
		model, problems := parseCase(t, dir)
		if len(problems) == 0 || model != nil {
			t.Fatal("the file should be refused")
		}
		golden(t, filepath.Join(dir, "stderr.txt"), text(problems))
	})
}

func eachCase(t *testing.T, kind string, run func(t *testing.T, dir string)) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", kind, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { run(t, dir) })
	}
}

func parseCase(t *testing.T, dir string) (*Model, diag.List) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, "events.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	model, problems := Parse("events.yaml", src)
	checkProblems(t, src, problems)
	return model, problems
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
