package ddl

import (
	"fmt"
	"regexp"
	"strings"
)

// Split splits DDL of ours, in which a statement ends with a line and a comment has
// its lines to itself. A comment that a blank line parts from the statement, such as
// a file's header, belongs to none.
func Split(text string) []Statement {
	var out []Statement
	var comment, sql []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		switch {
		case line == "" && len(sql) == 0:
			comment = nil
			continue
		case line == "":
			continue
		case strings.HasPrefix(line, "--"):
			comment = append(comment, line)
			continue
		}
		sql = append(sql, strings.TrimSuffix(line, ";"))
		if strings.HasSuffix(line, ";") {
			out = append(out, Statement{strings.Join(comment, "\n"), strings.Join(sql, "\n")})
			comment, sql = nil, nil
		}
	}
	return out
}

// Parse reads the CREATE TABLE and CREATE VIEW statements of our own templates, one
// column or key a line. It is no parser of SQL: what it doesn't know is an error, so
// that nothing of a table can be left out unseen.
func Parse(statements []Statement) (Schema, error) {
	var s Schema
	for _, statement := range statements {
		if m := createView.FindStringSubmatch(statement.SQL); m != nil {
			s.Views = append(s.Views, View{Statement: statement, Name: m[1], Query: Canonical(m[2])})
			continue
		}
		m := createTable.FindStringSubmatch(statement.SQL)
		if m == nil {
			first, _, _ := strings.Cut(statement.SQL, "\n")
			return Schema{}, fmt.Errorf("the statement %q makes neither a table nor a view", first)
		}
		t := Table{Statement: statement, Name: m[1], Engine: m[3], Charset: m[4]}
		for line := range strings.Lines(m[2]) {
			if err := t.parseLine(strings.TrimSuffix(strings.TrimSpace(line), ",")); err != nil {
				return Schema{}, fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		s.Tables = append(s.Tables, t)
	}
	return s, nil
}

var (
	createTable = regexp.MustCompile(`(?s)^CREATE TABLE (\w+) \(\n(.*)\n\) ENGINE=(\w+) DEFAULT CHARSET=(\w+)$`)
	createView  = regexp.MustCompile(`(?s)^CREATE VIEW (\w+) AS\n(.*)$`)

	primaryKey = regexp.MustCompile(`^PRIMARY KEY \((.*)\)$`)
	anyKey     = regexp.MustCompile(`^(KEY|CONSTRAINT) (\w+) (UNIQUE )?\((.*)\)$`)
	column     = regexp.MustCompile(`^(\w+)\s+((\w+(?:\(\d+\))?(?: UNSIGNED)?)(.*))$`)
	attribute  = regexp.MustCompile(`^(?:(CHARACTER SET) (\w+)|(COLLATE) (\w+)|(NOT NULL)|(DEFAULT) ('[^']*'|\d+)|(AUTO_INCREMENT)|(GENERATED ALWAYS AS) \((.*)\) STORED)(?:\s+|$)`)
)

func (t *Table) parseLine(line string) error {
	if m := primaryKey.FindStringSubmatch(line); m != nil {
		t.PrimaryKey = strings.Split(m[1], ", ")
		return nil
	}
	if m := anyKey.FindStringSubmatch(line); m != nil && (m[1] == "CONSTRAINT") == (m[3] != "") {
		t.Keys = append(t.Keys, Key{Name: m[2], Unique: m[3] != "", Columns: strings.Split(m[4], ", ")})
		return nil
	}
	m := column.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("the line %q is neither a column nor a key", line)
	}
	c := Column{Name: m[1], Definition: strings.Join(strings.Fields(m[2]), " "), Type: strings.ToLower(m[3])}
	for rest := strings.TrimSpace(m[4]); rest != ""; {
		a := attribute.FindStringSubmatch(rest)
		if a == nil {
			return fmt.Errorf("column %s: %q is not known", c.Name, rest)
		}
		c.set(a)
		rest = rest[len(a[0]):]
	}
	if IsText(c.Type) && c.Charset == "" {
		c.Charset, _, _ = strings.Cut(c.Collation, "_")
		if c.Charset == "" {
			c.Charset = t.Charset
		}
		// Said outright: the table that the column is added to may have another default.
		c.Definition = c.Definition[:len(m[3])] + " CHARACTER SET " + c.Charset + c.Definition[len(m[3]):]
	}
	t.Columns = append(t.Columns, c)
	return nil
}

// set takes over what an attribute says.
func (c *Column) set(a []string) {
	switch {
	case a[1] != "":
		c.Charset = a[2]
	case a[3] != "":
		c.Collation = a[4]
	case a[5] != "":
		c.NotNull = true
	case a[6] != "":
		c.HasDefault = true
		c.Default = strings.Trim(a[7], "'")
	case a[8] != "":
		c.Extra = "auto_increment"
	case a[9] != "":
		c.Generated = Canonical(a[10])
	}
}
