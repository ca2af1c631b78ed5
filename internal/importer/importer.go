// Package importer makes an events.yaml of a description in another format, and
// tells what it could not carry over.
package importer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Formats that can be imported.
const (
	FormatAsyncAPI   = "asyncapi"   // 2.x and 3.x
	FormatJSONSchema = "jsonschema" // 2020-12 and draft-07, and what is between
)

// Formats are all of them.
func Formats() []string { return []string{FormatAsyncAPI, FormatJSONSchema} }

// Import reads src, which was in file, and returns the text of an events.yaml.
// Parsing it gives no finding. notes are warnings at places of the source: what has
// no counterpart. problems are why there is no text.
func Import(format, file string, src []byte) (text []byte, notes, problems diag.List) {
	im := &importer{file: file, types: map[*node]*typ{}, open: map[*node]bool{}, names: newNames(), events: map[*node]*event{}}
	err := im.run(format, src)
	if err == nil {
		text, err = im.settle()
	}
	if err != nil {
		d := diag.Diagnostic{Pos: diag.Pos{File: file}, Rule: "bad-import", Message: err.Error()}
		if r := (*refusal)(nil); errors.As(err, &r) {
			d.Pos, d.Hint = r.pos, r.hint
		}
		return nil, im.notes.Sorted(), diag.List{d}
	}
	return text, im.notes.Sorted(), nil
}

type importer struct {
	file  string
	root  *node
	out   document
	notes diag.List
	names *names

	types    map[*node]*typ   // declared, by the schema that they are of
	open     map[*node]bool   // schemas behind references that are being followed
	events   map[*node]*event // by message
	shapes   int
	closed   bool // it was said that unknown keys are passed over
	tooLarge *refusal
}

func (im *importer) run(format string, src []byte) error {
	root, err := read(im.file, src)
	if err != nil {
		return err
	}
	if root.kind != kindMapping {
		return &refusal{root.pos, "the document is not a mapping of keys to values", ""}
	}
	im.root = root
	switch format {
	case FormatAsyncAPI:
		err = im.asyncAPI()
	case FormatJSONSchema:
		err = im.jsonSchema()
	default:
		err = fmt.Errorf("unknown format %q", format)
	}
	switch {
	case im.tooLarge != nil:
		return im.tooLarge
	case err != nil:
		return err
	case len(im.out.events) == 0:
		return &refusal{root.pos, "the document describes nothing that could be an event", "messages with a payload, or schemas of objects, become events"}
	}
	return nil
}

// note says that something is not carried over: in the list, and in the file at
// what it is about.
func (im *importer) note(at *node, label string, todos *[]string, format string, args ...any) {
	const most = 2000 // a list that nobody reads to its end
	what := printable(fmt.Sprintf(format, args...))
	if todos != nil {
		*todos = append(*todos, what)
	}
	if len(im.notes) < most {
		im.notes.Add(diag.Diagnostic{
			Severity: diag.SeverityWarning, Pos: at.pos, Rule: "not-imported",
			Message: printable(label) + ": " + what,
		})
	}
}

// printable is text on one line, without what can't be seen.
func printable(text string) string {
	const most = 200
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r) && r != unicode.ReplacementChar:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
