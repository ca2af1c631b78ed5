// Package rebuild makes the payload of an event anew of its business row: by a statement of
// the user's, whose result is held against the event's schema before anybody writes it.
package rebuild

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// largest is how long a statement may be.
const largest = 64 << 10

// Statement reads the statement of an event's source, which must have one. The path counts from the folder of
// the model's file.
func Statement(m *spec.Model, e *spec.Event) (string, *diag.Diagnostic) {
	name := e.Source.Rebuild
	end := name.Pos
	end.Col += len(name.Text)
	problem := func(message, hint string) *diag.Diagnostic {
		return &diag.Diagnostic{Pos: name.Pos, End: end, Rule: "bad-rebuild", Message: "source.rebuild of " + e.Name.Text + ": " + message, Hint: hint}
	}
	root, err := os.OpenRoot(filepath.Dir(m.File))
	if err != nil {
		return "", problem("its folder can't be read", "")
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(name.Text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", problem("the file "+name.Text+" is not there", "write it: docs/reconcile.md shows one")
	case err != nil:
		return "", problem("the file "+name.Text+" can't be read", "it is a plain file in the folder of events.yaml, or below it")
	case len(data) > largest:
		return "", problem("the file "+name.Text+" is larger than 64 KiB", "it has one SELECT")
	}
	text, why := check(string(data))
	if why != "" {
		return "", problem(name.Text+" "+why, "write one SELECT with one ?, which is the event id, and the columns payload and aggregate_version")
	}
	return text, nil
}

// Problems are what is wrong with the statements of a model.
func Problems(m *spec.Model) (list diag.List) {
	for _, e := range m.Events {
		if e.Source == nil || e.Source.Rebuild.Text == "" {
			continue
		}
		if _, problem := Statement(m, e); problem != nil {
			list.Add(*problem)
		}
	}
	return list
}

// check returns the statement of a file without what stands before and behind it, or says
// why it isn't one that can be used.
func check(text string) (statement, why string) {
	bare, closed := blank(text)
	if !closed {
		return "", "has a text, a name or a comment that does not end"
	}
	text = bare.cut(text)
	plain, _ := blank(text)
	words := strings.FieldsFunc(strings.ToUpper(string(plain)), func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	switch {
	case len(words) == 0:
		return "", "has no statement"
	case words[0] != "SELECT" && words[0] != "WITH":
		return "", "has a statement other than SELECT"
	case strings.Contains(string(plain), ";"):
		return "", "has more than one statement"
	case strings.Count(string(plain), "?") != 1:
		return "", "does not have exactly one ?"
	}
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case w == "INTO":
			return "", "writes somewhere: INTO"
		case w == "FOR" && (next == "UPDATE" || next == "SHARE"), w == "LOCK" && next == "IN":
			return "", "locks rows: the business row is locked already"
		}
	}
	return text, ""
}

// blanked is a text in which comments are blanks, and what is quoted is letters.
type blanked string

// cut leaves out what stands before the statement in text, and behind it.
func (b blanked) cut(text string) string {
	begin := len(b) - len(strings.TrimLeft(string(b), " \t\r\n"))
	end := len(strings.TrimRight(string(b), "; \t\r\n"))
	if begin >= end {
		return ""
	}
	return text[begin:end]
}

// blank hides comments, texts and quoted names; false when one does not end.
func blank(text string) (blanked, bool) {
	out := []byte(text)
	hide := func(from, to int, by byte) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = by
			}
		}
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		end, by := 0, byte(' ')
		switch {
		case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
			end, by = quoted(rest), '_'
		case strings.HasPrefix(rest, "/*"):
			if end = strings.Index(rest[2:], "*/"); end >= 0 {
				end += len("/**/")
			}
		case rest[0] == '#', rest == "--", strings.HasPrefix(rest, "--") && strings.ContainsRune(" \t\r\n", rune(rest[2])):
			if end = strings.IndexByte(rest, '\n'); end < 0 {
				end = len(rest)
			}
		default:
			i++
			continue
		}
		if end < 0 {
			return blanked(out), false
		}
		hide(i, i+end, by)
		i += end
	}
	return blanked(out), true
}

// quoted is how long a quoted part is at the beginning of text; -1 when it does not end.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] != '`':
			i++
		case text[i] == text[0] && i+1 < len(text) && text[i+1] == text[0]:
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return -1
}
