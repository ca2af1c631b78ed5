package sqlcrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// message is a line of sqlc's stderr.
type message struct {
	file      string // from the root; the probes' is "../probe/probe.sql"
	line, col int
	text      string
}

var (
	messageLine = regexp.MustCompile(`^(.+?):(\d+):(\d+): (.*)$`)
	relation    = regexp.MustCompile(`^relation "([^"]*)" (does not exist|already exists)$`)
	columnName  = regexp.MustCompile(`^column "([^"]*)" does not exist$`)
)

// parse splits stderr into messages with a place and the rest.
func (s *stage) parse(stderr string) (messages []message, rest []string) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\r\n")
		m := messageLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			n, _ := strconv.Atoi(m[2])
			col, _ := strconv.Atoi(m[3])
			file := path.Join(path.Dir(s.in.SQL.Config), strings.ReplaceAll(m[1], `\`, "/"))
			messages = append(messages, message{file, n, col, m[4]})
		case line != "" && !strings.HasPrefix(line, "# package"):
			rest = append(rest, line)
		}
	}
	return messages, rest
}

// translate turns what sqlc has to say into findings: in the user's tables at
// their own place, about a column of a source at the source in events.yaml.
// What is left is about our own SQL, and our fault.
func translate(ctx context.Context, in Input, s *stage, o outcome) (diag.List, error) {
	messages, faults := s.parse(o.stderr)
	theirs := map[string][]byte{}
	for _, f := range s.schema {
		theirs[f.path] = f.data
	}
	reconcile := path.Join(path.Dir(in.SQL.Files[0].Path), "reconcile.sql")
	var problems diag.List
	var wrong []probe
	var unexplained []string // of reconcile.sql: a probe says it better
	for _, m := range messages {
		p, isProbe := probe{}, m.file == "../"+path.Join(probeDir, probeFile)
		if isProbe {
			p, isProbe = probeAt(s.probes, m.line)
		}
		text := fmt.Sprintf("%s:%d:%d: %s", m.file, m.line, m.col, m.text)
		switch {
		case isProbe && (relation.MatchString(m.text) || columnName.MatchString(m.text)):
			wrong = append(wrong, p)
		case theirs[m.file] != nil:
			problems.Add(inSchema(in, m, theirs[m.file]))
		case m.file == reconcile:
			unexplained = append(unexplained, text)
		default:
			faults = append(faults, text)
		}
	}
	if len(wrong) == 0 && len(problems) == 0 {
		faults = append(faults, unexplained...)
	}
	if len(faults) > 0 || len(wrong)+len(problems) == 0 {
		return nil, fmt.Errorf("sqlc refuses the generated SQL, which is a bug in outboxgen; please report it:\n%s",
			strings.Join(append(faults, firstLines(o.stderr, 1)), "\n"))
	}
	if len(wrong) > 0 {
		tables, err := s.tables(ctx)
		if err != nil {
			return nil, err
		}
		problems = append(problems, unknownNames(in, wrong, tables)...)
	}
	return problems.Sorted(), nil
}

// unknownNames reports tables that aren't there, and columns of those that are.
func unknownNames(in Input, wrong []probe, tables map[string][]string) diag.List {
	var problems diag.List
	missing := map[diag.Pos]bool{}
	for _, p := range wrong {
		if !p.column {
			missing[p.table.Pos] = true
			problems.Add(at(p.name, "unknown-table", fmt.Sprintf("the table %q is in no file of sql.schema", p.name.Text), tableHint(in, p, tables)))
		}
	}
	for _, p := range wrong {
		if !p.column || missing[p.table.Pos] {
			continue
		}
		columns := tables[strings.ToLower(p.table.Text)]
		hint := "its columns are " + strings.Join(columns, ", ")
		if near := diag.Nearest(p.name.Text, columns); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		problems.Add(at(p.name, "unknown-column", fmt.Sprintf("the table %q has no column %q", p.table.Text, p.name.Text), hint))
	}
	return problems
}

func tableHint(in Input, p probe, tables map[string][]string) string {
	if len(in.Schema) == 0 {
		return "name the file that creates it under sql.schema"
	}
	if near := diag.Nearest(p.name.Text, slices.Sorted(maps.Keys(tables))); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "add the file that creates it to sql.schema"
}

// tables asks sqlc for the tables and their columns, by the tables' lower-case
// names. It describes them only when no query is wrong, so the probes go.
func (s *stage) tables(ctx context.Context) (map[string][]string, error) {
	config := "version: \"2\"\nsql:\n" + s.probeConfig()
	err := errors.Join(
		s.write(path.Join(probeDir, probeFile), probeSQL(nil)),
		s.write(path.Join(treeDir, s.in.SQL.Config), []byte(config)),
	)
	if err != nil {
		return nil, err
	}
	if o, err := s.run(ctx); err != nil || o.failed {
		return nil, err // without suggestions, then
	}
	d, err := s.described()
	if err != nil {
		return nil, err
	}
	tables := map[string][]string{}
	for _, schema := range d.Catalog.Schemas {
		for _, t := range schema.Tables {
			for _, c := range t.Columns {
				name := strings.ToLower(t.Rel.Name)
				tables[name] = append(tables[name], c.Name)
			}
		}
	}
	return tables, nil
}
