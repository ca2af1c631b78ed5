package importer

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the expected output of the golden cases")

// The folder of a case begins with its format.
func TestGood(t *testing.T) {
	eachCase(t, "good", func(t *testing.T, dir, format, name string, src []byte) {
		text, notes, problems := Import(format, name, src)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		parses(t, text)
		golden(t, filepath.Join(dir, "events.yaml"), string(text))
		golden(t, filepath.Join(dir, "notes.txt"), printed(t, notes))
	})
}

func TestBad(t *testing.T) {
	eachCase(t, "bad", func(t *testing.T, dir, format, name string, src []byte) {
		text, _, problems := Import(format, name, src)
		if len(problems) != 1 || text != nil {
			t.Fatalf("%d problems, and %d bytes of text", len(problems), len(text))
		}
		golden(t, filepath.Join(dir, "stderr.txt"), printed(t, problems))
	})
}

func eachCase(t *testing.T, kind string, run func(t *testing.T, dir, format, name string, src []byte)) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join("testdata", kind, "*", "source.*"))
	if err != nil || len(sources) < 6 {
		t.Fatalf("%d cases: %v", len(sources), err)
	}
	for _, source := range sources {
		dir := filepath.Dir(source)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			src, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			format, _, _ := strings.Cut(filepath.Base(dir), "-")
			run(t, dir, format, filepath.Base(source), src)
		})
	}
}

func parses(t *testing.T, text []byte) {
	t.Helper()
	if _, problems := spec.Parse("events.yaml", text); len(problems) > 0 {
		t.Fatalf("what comes out has problems:\n%s\n%s", printed(t, problems), text)
	}
}

func printed(t *testing.T, list diag.List) string {
	t.Helper()
	var b bytes.Buffer
	if err := diag.Text(&b, list); err != nil {
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

// A document that is only large is refused before it is parsed.
func TestTooLarge(t *testing.T) {
	src := append([]byte("asyncapi: 3.0.0\n# "), bytes.Repeat([]byte("x"), MaxSize)...)
	_, _, problems := Import(FormatAsyncAPI, "big.yaml", src)
	if len(problems) != 1 || problems[0].Message != "the file is larger than 4 MiB" {
		t.Errorf("a file that is too large: %v", problems)
	}
}

// FuzzImport: what comes out parses, whatever went in, and in a time that is no
// multiple of a power of its size.
func FuzzImport(f *testing.F) {
	sources, err := filepath.Glob("testdata/*/*/source.*")
	if err != nil || len(sources) == 0 {
		f.Fatal(err)
	}
	for _, source := range sources {
		src, err := os.ReadFile(source)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 64<<10 {
			return
		}
		for _, format := range Formats() {
			begun := time.Now()
			text, notes, problems := Import(format, "source", src)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%d bytes took %s", len(src), took)
			}
			if (text == nil) != (len(problems) > 0) {
				t.Errorf("%d bytes of text, and %v", len(text), problems)
			}
			if text != nil {
				parses(t, text)
			}
			for _, d := range append(notes, problems...) {
				if d.Message == "" || d.Rule == "" || strings.ContainsAny(d.Message, "\n\x1b") {
					t.Errorf("%+v", d)
				}
			}
		}
	})
}
