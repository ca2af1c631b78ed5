package spec

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestMutations breaks the golden cases the way people and merge tools do:
// a character too many or too few, a piece of one file inside another. It
// finds with a few thousand tries what byte-wise fuzzing takes hours for.
func TestMutations(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*/events.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no seeds: %v", err)
	}
	var seeds [][]byte
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(src) > 0 {
			seeds = append(seeds, src)
		}
	}
	const tries = 4000
	r := rand.New(rand.NewPCG(1, 2)) // the same inputs every time
	for range tries {
		src := mutate(r, seeds)
		model, problems := Parse("events.yaml", src)
		if (model == nil) == (len(problems) == 0) {
			t.Errorf("model %v with %d problems", model != nil, len(problems))
		}
		checkProblems(t, src, problems)
		if model != nil {
			_ = dump(model)
		}
		if t.Failed() {
			t.Fatalf("the input was %q", src)
		}
	}
}

func mutate(r *rand.Rand, seeds [][]byte) []byte {
	tokens := []string{
		"{", "}", "[", "]", "?", ":", ": ", "\n", "\n  ", "- ", "'", "\"", "|\n", "\t", "&a ", "*a", "!x ", ",", "#", " #",
		"<", ">", "<<: x\n", "null", "~", "y", "é", "\u2028", "\x00", "---\n", "%Y\n", "\\", "  ", "map<a,b>", "@", "`", "? ",
		"list<", "\r\n", "\r", `"\x07"`,
	}
	src := append([]byte(nil), seeds[r.IntN(len(seeds))]...)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(src) + 1)
		end := at
		var piece []byte
		switch r.IntN(3) {
		case 0:
			piece = []byte(tokens[r.IntN(len(tokens))])
		case 1:
			end = min(len(src), at+1+r.IntN(8))
		case 2:
			other := seeds[r.IntN(len(seeds))]
			from := r.IntN(len(other))
			piece = other[from:min(len(other), from+r.IntN(60))]
		}
		src = append(append(append([]byte(nil), src[:at]...), piece...), src[end:]...)
	}
	return src
}
