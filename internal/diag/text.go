package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Text writes the findings for a person at a terminal, in the form that
// editors and CI logs make clickable:
//
//	file:line:col: message [rule]
//	file:line:col: warning: message [rule]
//	    hint: what to do
//	    file:line:col: first declared here
//
// It writes the list in the order given; see List.Sorted.
func Text(w io.Writer, l List) error {
	var b strings.Builder
	for _, d := range l {
		place := d.Pos.String()
		if place != "" {
			place += ": "
		}
		if d.Severity != SeverityError {
			place += d.Severity.String() + ": "
		}
		fmt.Fprintf(&b, "%s%s [%s]\n", place, oneLine(d.Message), d.Rule)
		if d.Hint != "" {
			fmt.Fprintf(&b, "    hint: %s\n", strings.ReplaceAll(d.Hint, "\n", "\n          "))
		}
		for _, r := range d.Related {
			fmt.Fprintf(&b, "    %s: %s\n", r.Pos, oneLine(r.Message))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine keeps a finding on its line, so that a message can't look like
// another finding, and keeps from a terminal what would command it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == ' ':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
