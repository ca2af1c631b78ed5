package spec

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/diag"
)

func text(l diag.List) string {
	var b strings.Builder
	if err := diag.Text(&b, l); err != nil {
		panic(err) // a strings.Builder does not fail
	}
	return b.String()
}

var (
	quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	internals  = regexp.MustCompile(`yaml:|!!|yaml\.|\*?spec\.|\[\]byte|interface|panic|runtime error|nil pointer|<nil>|%!`)
)

// checkProblems holds what is true of every finding whatever the input: it
// points into the file, is made for the reader, and has none of our insides.
func checkProblems(t *testing.T, src []byte, problems diag.List) {
	t.Helper()
	lines := strings.Split(string(src), "\n")
	for _, d := range problems {
		for _, pos := range append([]diag.Pos{d.Pos}, positions(d.Related)...) {
			if pos.Line < 1 || pos.Line > len(lines) || pos.Col < 1 || pos.Col > len(lines[pos.Line-1])+1 {
				t.Errorf("the position %s is not in the file: %+v", pos, d)
			}
		}
		if d.Rule == "" || d.Message == "" || d.Pos.File != "events.yaml" {
			t.Errorf("incomplete: %+v", d)
		}
		for _, s := range []string{d.Message, d.Hint} {
			if m := internals.FindString(quotedText.ReplaceAllString(s, "")); m != "" {
				t.Errorf("%q shows %q", s, m)
			}
			if strings.ContainsFunc(s, isForbidden) {
				t.Errorf("%q has a control character", s)
			}
		}
	}
}

func positions(related []diag.Related) []diag.Pos {
	var out []diag.Pos
	for _, r := range related {
		out = append(out, r.Pos)
	}
	return out
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*/events.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		model, problems := Parse("events.yaml", src)
		if (model == nil) == (len(problems) == 0) {
			t.Fatalf("model %v with %d problems", model != nil, len(problems))
		}
		checkProblems(t, src, problems)
		if model != nil {
			_ = dump(model) // walks every pointer
		}
	})
}
