package sqlgen

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/templates"
)

// templateData is what the templates see.
type templateData struct {
	Reconciles []Reconcile

	Lanes           bool // relays lease lanes of aggregates, not rows
	DeletePublished bool // at the mark: no published event is kept

	// For sqlc's configuration; paths count from its own folder.
	Schema, Queries []string
	Out             string
}

// renderer renders the templates of a dialect.
type renderer struct {
	dialect  string
	prefix   string // of every table, view, key and constraint
	problems diag.List
}

func newRenderer(m *spec.Model) renderer {
	return renderer{dialect: m.SQL.Dialect, prefix: m.Outbox.TablePrefix.Text}
}

// now is UTC_TIMESTAMP(6), which sqlc v1.31 knows only without a precision:
// the same value to the microsecond on both servers, and a constant to their
// optimisers. CURRENT_TIMESTAMP(6) alone depends on the session's time zone
// and goes back at the end of summer time.
const now = "UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND"

func (r *renderer) funcs() template.FuncMap {
	return template.FuncMap{
		"table": func(name string) string { return r.prefix + name },
		// The kind of a key (ix_, uq_) stays in front of the prefix.
		"key": func(kind, name string) string { return kind + r.prefix + name },
		// A name of the user's may be a reserved word. The parser lets no
		// backtick through; doubling it is the second lock on that door.
		"ident": func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" },
		"now":   func() string { return now },
		// after is the time by an argument's microseconds from now. Without
		// the cast sqlc gives the argument no type.
		"after": func(arg string) string {
			return fmt.Sprintf("%s + INTERVAL CAST(sqlc.arg(%s) AS SIGNED) MICROSECOND", now, arg)
		},
		// ago is the time before now by an argument's microseconds.
		"ago": func(arg string) string {
			return fmt.Sprintf("%s - INTERVAL CAST(sqlc.arg(%s) AS SIGNED) MICROSECOND", now, arg)
		},
		// at is the time that an argument's microseconds since 1970 are.
		"at": func(arg string) string {
			return fmt.Sprintf("'1970-01-01 00:00:00' + INTERVAL CAST(sqlc.arg(%s) AS SIGNED) MICROSECOND", arg)
		},
		"laneCount": func() int { return spec.LaneCount },
		"lanes": func() string { // as rows of VALUES
			rows := make([]string, spec.LaneCount)
			for i := range rows {
				rows[i] = fmt.Sprintf("(%d)", i)
			}
			return strings.Join(rows, ", ")
		},
		// micros is a time as microseconds since 1970: a number passes every
		// driver setting (parseTime, loc) unchanged. A zero date, which a server
		// that isn't strict lets in, has none, and must not stop whoever reads it.
		"micros": func(column string) string {
			return fmt.Sprintf("CAST(COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s), 0) AS SIGNED)", column)
		},
		"quote": strconv.Quote,
		"list": func(texts []string) string {
			quoted := make([]string, len(texts))
			for i, text := range texts {
				quoted[i] = strconv.Quote(text)
			}
			return strings.Join(quoted, ", ")
		},
	}
}

// render renders the template of a file. A failure is a bug in a template, and
// still a finding, not a panic: it must not leave a half-written tree behind.
func (r *renderer) render(file string, data templateData) []byte {
	var b bytes.Buffer
	name := file + ".tmpl"
	t, err := template.New(name).Funcs(r.funcs()).ParseFS(templates.FS, path.Join(r.dialect, name))
	if err == nil {
		err = t.Execute(&b, data)
	}
	if err != nil {
		r.report(file, err)
	}
	return b.Bytes()
}

func (r *renderer) report(file string, err error) {
	r.problems.Add(diag.Diagnostic{
		Rule:    "bad-template",
		Message: fmt.Sprintf("the template %s.tmpl can't be rendered: %v", path.Join(r.dialect, file), err),
		Hint:    "this is a bug in outboxgen; please report it",
	})
}

// relative gives paths from the folder from instead of the root.
func relative(from string, paths ...string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		rel, err := filepath.Rel(filepath.FromSlash(from), filepath.FromSlash(p))
		if err != nil { // one is absolute, the other is not: the parser refuses that
			rel = p
		}
		out[i] = filepath.ToSlash(rel)
	}
	return out
}
