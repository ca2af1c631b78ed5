package sqlcrun

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// inSchema is a message about one of the user's own DDL files.
func inSchema(in Input, m message, text []byte) diag.Diagnostic {
	d := diag.Diagnostic{
		Pos:     diag.Pos{File: in.shown(m.file), Line: m.line, Col: m.col},
		Rule:    "bad-schema",
		Message: m.text,
	}
	named := relation.FindStringSubmatch(m.text)
	if near := syntaxError.FindStringSubmatch(m.text); near != nil {
		d.Pos.Col = nearColumn(text, m, near[1])
		d.Hint = "sqlc's parser reads it as MySQL 8, without the client's own commands such as DELIMITER"
	}
	if named == nil {
		return d
	}
	table := named[1]
	d.Message = fmt.Sprintf("the table %q %s", table, named[2])
	if named[2] == "already exists" && in.isOurs(table) {
		d.Message = fmt.Sprintf("the table %q is one that outboxgen makes", table)
		d.Hint = "keep it out of the files in sql.schema, which are for your own tables, or set outbox.table_prefix"
	}
	// For what its parser let pass sqlc gives no place but the file's beginning.
	if m.line == 1 && m.col == 1 {
		if at, ok := mention(text, table, named[2] == "already exists"); ok {
			d.Pos.Line = 1 + bytes.Count(text[:at], []byte("\n"))
			d.Pos.Col = at - bytes.LastIndexByte(text[:at], '\n')
		}
	}
	return d
}

var syntaxError = regexp.MustCompile(`^syntax error near "(.*)"$`)

// nearColumn is where the text begins that the parser stumbled over; it gives
// the column in which the first word of that ends.
func nearColumn(text []byte, m message, near string) int {
	lines := bytes.Split(text, []byte("\n"))
	if near == "" || m.line > len(lines) {
		return m.col
	}
	if i := bytes.Index(lines[m.line-1], []byte(strings.TrimSpace(near))); i >= 0 {
		return i + 1
	}
	return m.col
}

// mention finds the statement that sqlc means: the last that creates the table,
// or the first that changes it.
func mention(text []byte, table string, creates bool) (int, bool) {
	verbs := `(?:alter|drop|rename|truncate)\s+table`
	if creates {
		verbs = `create\s+(?:table|(?:or\s+replace\s+)?view)`
	}
	re, err := regexp.Compile(`(?i)\b` + verbs + "\\s+(?:if\\s+(?:not\\s+)?exists\\s+)?`?(" + regexp.QuoteMeta(table) + ")\\b")
	if err != nil {
		return 0, false
	}
	all := re.FindAllSubmatchIndex(text, -1)
	switch {
	case len(all) == 0:
		return 0, false
	case creates:
		return all[len(all)-1][2], true
	default:
		return all[0][2], true
	}
}

// isOurs reports the name of a table or view of the generated DDL.
func (in Input) isOurs(table string) bool {
	for _, statement := range in.SQL.DDL {
		if words := strings.Fields(statement); len(words) > 2 && strings.EqualFold(words[2], table) {
			return true
		}
	}
	return false
}
