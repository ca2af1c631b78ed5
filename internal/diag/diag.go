// Package diag holds what the generator has to say about its input: findings
// as data, and the printers that show them.
package diag

import (
	"cmp"
	"fmt"
	"slices"
)

// Pos is a place in a file. Line and Col count from 1; Col counts bytes.
// The zero Pos means "no place", used for findings about a whole file or run.
type Pos struct {
	File string
	Line int
	Col  int
}

// IsValid reports whether p names a line.
func (p Pos) IsValid() bool { return p.Line > 0 }

func (p Pos) String() string {
	switch {
	case !p.IsValid():
		return p.File
	case p.Col <= 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	}
}

// Related points at a second place that explains a finding, such as
// "first declared here".
type Related struct {
	Pos     Pos
	Message string
}

// Severity is how much a finding weighs.
type Severity int

// The severities. SeverityError is the default.
const (
	SeverityError   Severity = iota
	SeverityWarning          // the input works, and something about it should be otherwise
	SeverityNote             // worth knowing, and nothing to repair
)

func (s Severity) String() string {
	switch s {
	case SeverityWarning:
		return "warning"
	case SeverityNote:
		return "note"
	default:
		return "error"
	}
}

// Diagnostic is one finding.
type Diagnostic struct {
	Severity Severity
	Pos      Pos
	End      Pos    // the end of the text meant; zero when unknown
	Rule     string // the rule's name in kebab-case, e.g. "unknown-type"
	Message  string // one line, lower case, no trailing dot, no Go type names
	Hint     string // what to do, e.g. `did you mean "int64"?`; may be empty
	Related  []Related
}

// List is a set of findings. It is an error when it is not empty; use Err.
type List []Diagnostic

// Add appends a finding.
func (l *List) Add(d Diagnostic) { *l = append(*l, d) }

// Err returns the list as an error, or nil when it is empty.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

func (l List) Error() string {
	if len(l) == 1 {
		return fmt.Sprintf("%s: %s", l[0].Pos, l[0].Message)
	}
	return fmt.Sprintf("%d problems; the first: %s: %s", len(l), l[0].Pos, l[0].Message)
}

// Sorted returns the findings by file, line, column and rule, without repeats.
func (l List) Sorted() List {
	out := slices.Clone(l)
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
			cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(out, func(a, b Diagnostic) bool {
		return a.Pos == b.Pos && a.Rule == b.Rule && a.Message == b.Message
	})
}
