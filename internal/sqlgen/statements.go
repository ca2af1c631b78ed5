package sqlgen

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Statement is one of the statements that generated code runs.
type Statement struct {
	Name string // "SelectDueLanes": sqlc's name for it
	SQL  string // with sqlc's arguments, without comments and the semicolon
}

// Statements are those that generated code runs, in the order of the query files.
func Statements(m *spec.Model) ([]Statement, diag.List) {
	result, problems := Generate(m)
	if len(problems) > 0 {
		return nil, problems
	}
	var out []Statement
	for _, f := range result.Files {
		if path.Ext(f.Path) != ".sql" || path.Base(f.Path) == schemaFile {
			continue
		}
		blocks := strings.Split(string(f.Data), "-- name: ")
		for _, block := range blocks[1:] {
			name, _, _ := strings.Cut(block, " ")
			for _, s := range ddl.Split("-- " + block) {
				out = append(out, Statement{Name: name, SQL: s.SQL})
			}
		}
	}
	return out, nil
}

// StatementsOf are those of the names, in their order.
func StatementsOf(all []Statement, names ...string) []Statement {
	var out []Statement
	for _, name := range names {
		if i := slices.IndexFunc(all, func(s Statement) bool { return s.Name == name }); i >= 0 {
			out = append(out, all[i])
		}
	}
	return out
}

var argument = regexp.MustCompile(`sqlc\.(?:arg|slice)\((\w+)\)|LIMIT \?|\?`)

// With is the statement as a server takes it, with values in place of its arguments: SQL
// literals, for a slice a list of them. An argument without one is '1'.
func (s Statement) With(values map[string]string) string {
	return argument.ReplaceAllStringFunc(s.SQL, func(text string) string {
		name := argument.FindStringSubmatch(text)[1]
		switch value, given := values[name]; {
		case text == "LIMIT ?":
			return "LIMIT 500"
		case given:
			return value
		default:
			return "'1'"
		}
	})
}

// Bind is the statement with placeholders, and the values of its arguments in their order. A
// []string or []int64 is a list; limit is that of LIMIT ?.
func (s Statement) Bind(values map[string]any, limit int32) (query string, args []any) {
	query = argument.ReplaceAllStringFunc(s.SQL, func(text string) string {
		if text == "LIMIT ?" {
			args = append(args, limit)
			return text
		}
		switch value := values[argument.FindStringSubmatch(text)[1]].(type) {
		case []string:
			return placeholders(&args, value)
		case []int64:
			return placeholders(&args, value)
		default:
			args = append(args, value)
			return "?"
		}
	})
	return query, args
}

func placeholders[T any](args *[]any, list []T) string {
	if len(list) == 0 {
		return "NULL" // an empty list matches nothing
	}
	for _, v := range list {
		*args = append(*args, v)
	}
	return strings.TrimSuffix(strings.Repeat("?, ", len(list)), ", ")
}
