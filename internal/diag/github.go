package diag

import (
	"fmt"
	"io"
	"strings"
)

// GitHub writes the findings as workflow commands, which GitHub Actions shows
// beside the lines of a pull request:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
// It writes the list in the order given.
func GitHub(w io.Writer, l List) error {
	var b strings.Builder
	for _, d := range l {
		properties := []string{"title=" + escapeProperty(d.Rule)}
		if d.Pos.File != "" {
			properties = append(properties, "file="+escapeProperty(d.Pos.File))
		}
		properties = append(properties, place(d)...)
		fmt.Fprintf(&b, "::%s %s::%s\n", command(d.Severity), strings.Join(properties, ","), escapeData(body(d)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// command is a severity as GitHub calls it.
func command(s Severity) string {
	if s == SeverityNote {
		return "notice"
	}
	return s.String()
}

// place gives the numbers GitHub knows. An end column counts only on the line
// of the beginning.
func place(d Diagnostic) []string {
	var out []string
	add := func(key string, number int) {
		if number > 0 {
			out = append(out, fmt.Sprintf("%s=%d", key, number))
		}
	}
	if !d.Pos.IsValid() {
		return nil
	}
	add("line", d.Pos.Line)
	add("col", d.Pos.Col)
	add("endLine", d.End.Line)
	if d.End.Line == d.Pos.Line && d.End.Col > d.Pos.Col {
		add("endColumn", d.End.Col)
	}
	return out
}

// body has the hint and the related places too: an annotation is one text.
func body(d Diagnostic) string {
	lines := []string{d.Message}
	if d.Hint != "" {
		lines = append(lines, "hint: "+d.Hint)
	}
	for _, r := range d.Related {
		lines = append(lines, fmt.Sprintf("%s: %s", r.Pos, r.Message))
	}
	return strings.Join(lines, "\n")
}

// The escapes are those of actions/toolkit, packages/core/src/command.ts. A
// line break that got through would begin a command of the file's own.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
