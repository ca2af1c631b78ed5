// Package ddl is the model of our tables and views: what their statements say, as
// data, so that it can be compared with what a database has.
package ddl

// Schema is what belongs together in one database.
type Schema struct {
	Tables []Table // in the order in which they are created
	Views  []View
}

// Statement is one statement of a file of ours.
type Statement struct {
	Comment string // the comment above it, with its dashes; may be empty
	SQL     string // without the semicolon
}

// Table is a table.
type Table struct {
	Statement
	Name       string
	Engine     string // "InnoDB"
	Charset    string // the default one of its columns
	Columns    []Column
	PrimaryKey []string
	Keys       []Key
}

// Column is a column. Two columns whose fields are the same, but for the
// definition, hold the same values in the same way.
type Column struct {
	Name       string
	Definition string // as it is written behind the name; empty for what was read from a database
	Type       string // in lower case, without a display width: "varchar(64)", "int unsigned", "json"
	Charset    string // of a text, otherwise empty
	Collation  string // of a text; empty where the charset's default will do
	NotNull    bool
	Default    string // a literal without its quotes, or an expression in parentheses
	HasDefault bool
	Extra      string // "auto_increment", "on update …"; otherwise empty
	Generated  string // the expression that it is made by, see Canonical; otherwise empty
	Virtual    bool   // a generated one that isn't stored
}

// Key is an index. The name of a unique one is that of its constraint.
type Key struct {
	Name    string
	Unique  bool
	Hidden  bool     // the server's optimiser doesn't see it: FORCE INDEX fails
	Columns []string // "status"; of a prefix "reason(10)", of a descending one "status desc"
}

// View is a view.
type View struct {
	Statement
	Name  string
	Query string // see Canonical
}

// Table returns the table of a name, nil where there is none.
func (s *Schema) Table(name string) *Table {
	for i := range s.Tables {
		if s.Tables[i].Name == name {
			return &s.Tables[i]
		}
	}
	return nil
}

// Column returns the column of a name, nil where there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Key returns the index of a name, nil where there is none.
func (t *Table) Key(name string) *Key {
	for i := range t.Keys {
		if t.Keys[i].Name == name {
			return &t.Keys[i]
		}
	}
	return nil
}

// Statements returns the statements that create everything, in order.
func (s *Schema) Statements() []Statement {
	var out []Statement
	for _, t := range s.Tables {
		out = append(out, t.Statement)
	}
	for _, v := range s.Views {
		out = append(out, v.Statement)
	}
	return out
}

// Drops returns the statements that drop everything: a view before the tables it
// reads, the table made last first.
func (s *Schema) Drops() []Statement {
	var out []Statement
	for i := len(s.Views) - 1; i >= 0; i-- {
		out = append(out, Statement{SQL: "DROP VIEW " + s.Views[i].Name})
	}
	for i := len(s.Tables) - 1; i >= 0; i-- {
		out = append(out, Statement{SQL: "DROP TABLE " + s.Tables[i].Name})
	}
	return out
}

// IsText reports a type whose values have a charset.
func IsText(typ string) bool {
	for _, prefix := range []string{"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"} {
		if len(typ) >= len(prefix) && typ[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}
