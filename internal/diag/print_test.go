package diag

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() List {
	p := func(line, col int) Pos { return Pos{File: "a,b/events.yaml", Line: line, Col: col} }
	return List{
		{Pos: p(3, 5), End: p(3, 9), Rule: "unknown-type", Message: `unknown type "strng"`, Hint: `did you mean "string"?`},
		{
			Pos: p(9, 1), Rule: "duplicate-key", Message: "100% twice\n::error::not a command",
			Related: []Related{{Pos: p(2, 1), Message: "first declared here"}},
		},
		{Pos: Pos{File: "events.yaml"}, Rule: "unreadable-file", Message: "the file cannot be read"},
		{Rule: "no-place", Message: "write list<T>"},
		{Severity: SeverityWarning, Pos: p(12, 3), Rule: "doc-missing", Message: "no doc"},
		{Severity: SeverityNote, Rule: "looked-at", Message: "all of it"},
	}
}

func TestPrinters(t *testing.T) {
	tests := []struct {
		name  string
		print func(io.Writer, List) error
		want  string
	}{
		{"text", Text, `a,b/events.yaml:3:5: unknown type "strng" [unknown-type]
    hint: did you mean "string"?
a,b/events.yaml:9:1: 100% twice ::error::not a command [duplicate-key]
    a,b/events.yaml:2:1: first declared here
events.yaml: the file cannot be read [unreadable-file]
write list<T> [no-place]
a,b/events.yaml:12:3: warning: no doc [doc-missing]
note: all of it [looked-at]
`},
		{"github", GitHub, `::error title=unknown-type,file=a%2Cb/events.yaml,line=3,col=5,endLine=3,endColumn=9::unknown type "strng"%0Ahint: did you mean "string"?
::error title=duplicate-key,file=a%2Cb/events.yaml,line=9,col=1::100%25 twice%0A::error::not a command%0Aa,b/events.yaml:2:1: first declared here
::error title=unreadable-file,file=events.yaml::the file cannot be read
::error title=no-place::write list<T>
::warning title=doc-missing,file=a%2Cb/events.yaml,line=12,col=3::no doc
::notice title=looked-at::all of it
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.print(&b, sample()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, sample()[1:2]); err != nil {
		t.Fatal(err)
	}
	want := `[
  {
    "file": "a,b/events.yaml",
    "line": 9,
    "col": 1,
    "end_line": 0,
    "end_col": 0,
    "severity": "error",
    "rule": "duplicate-key",
    "message": "100% twice\n::error::not a command",
    "hint": "",
    "related": [
      {
        "file": "a,b/events.yaml",
        "line": 2,
        "col": 1,
        "message": "first declared here"
      }
    ]
  }
]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	if err := JSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no findings print as %q, %v", b.String(), err)
	}
}

func TestSorted(t *testing.T) {
	a := Diagnostic{Pos: Pos{File: "f", Line: 2, Col: 1}, Rule: "r", Message: "m"}
	b := Diagnostic{Pos: Pos{File: "f", Line: 1, Col: 7}, Rule: "r", Message: "m"}
	got := List{a, b, a}.Sorted()
	if diff := cmp.Diff(List{b, a}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErr(t *testing.T) {
	if err := (List{}).Err(); err != nil {
		t.Errorf("no findings are the error %v", err)
	}
	var l List
	if err := sample().Err(); !errors.As(err, &l) || len(l) != 6 {
		t.Errorf("findings do not come back from %v", err)
	}
}
