package schemadiff

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

func (r *reader) columns() error {
	return r.each("SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''), "+
		"IS_NULLABLE = 'NO', COLUMN_DEFAULT, EXTRA, COALESCE(GENERATION_EXPRESSION, '') "+
		"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()", "TABLE_NAME, ORDINAL_POSITION", func(rows *sql.Rows) error {
		var table, extra, expression string
		var fallback sql.NullString
		var c ddl.Column
		if err := rows.Scan(&table, &c.Name, &c.Type, &c.Charset, &c.Collation, &c.NotNull, &fallback, &extra, &expression); err != nil {
			return err
		}
		c.Type = plainType(c.Type)
		extra = strings.ToLower(extra)
		if expression != "" {
			// MySQL escapes the quotes of literals in here.
			c.Generated = ddl.Canonical(strings.ReplaceAll(expression, `\'`, `'`))
			c.Virtual = strings.Contains(extra, "virtual")
		} else {
			r.setDefault(&c, fallback, strings.Contains(extra, "default_generated"))
			c.Extra = strings.TrimSpace(notAttributes.ReplaceAllString(extra, ""))
		}
		if t := r.live.Schema.Table(table); t != nil {
			t.Columns = append(t.Columns, c)
		}
		return nil
	})
}

// notAttributes are words of EXTRA that say nothing about values.
var notAttributes = regexp.MustCompile(`default_generated|invisible`)

var displayWidth = regexp.MustCompile(`^(tinyint|smallint|mediumint|int|bigint)\(\d+\)`)

// plainType drops the display width that MariaDB and older tables show.
func plainType(t string) string { return displayWidth.ReplaceAllString(strings.ToLower(t), "$1") }

var (
	number    = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	zeroParts = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.0+$`)
)

// setDefault reads COLUMN_DEFAULT: MySQL shows literals bare and tells expressions
// in EXTRA, MariaDB quotes literals and says NULL for a column that has none.
func (r *reader) setDefault(c *ddl.Column, value sql.NullString, expression bool) {
	text := value.String
	if r.live.Server.MariaDB {
		quoted := len(text) >= 2 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'")
		switch {
		case value.Valid && text == "NULL":
			return
		case quoted:
			text = strings.ReplaceAll(text[1:len(text)-1], "''", "'")
		default:
			expression = value.Valid && !number.MatchString(text)
		}
	}
	if !value.Valid {
		return
	}
	c.HasDefault = true
	if expression {
		c.Default = "(" + ddl.Canonical(text) + ")"
		return
	}
	c.Default = zeroParts.ReplaceAllString(text, "$1")
}

// jsonChecks makes JSON of what MariaDB makes of it: a LONGTEXT with a check. It asks for the
// tables' text: information_schema shows checks to nobody who has no right on the whole database.
func (r *reader) jsonChecks() error {
	if !r.live.Server.MariaDB {
		return nil
	}
	for i := range r.live.Schema.Tables {
		t := &r.live.Schema.Tables[i]
		if !slices.ContainsFunc(t.Columns, mayBeJSON) {
			continue
		}
		var name, text string
		if err := r.db.QueryRowContext(r.ctx, "SHOW CREATE TABLE `"+t.Name+"`").Scan(&name, &text); err != nil {
			return fmt.Errorf("read the table %s: %w", t.Name, err)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			for j := range t.Columns {
				c := &t.Columns[j]
				if mayBeJSON(*c) && strings.HasPrefix(line, "`"+c.Name+"` ") && strings.Contains(line, " CHECK (json_valid(`"+c.Name+"`))") {
					c.Type, c.Charset, c.Collation = "json", "", ""
				}
			}
		}
	}
	return nil
}

func mayBeJSON(c ddl.Column) bool { return c.Type == "longtext" && c.Collation == "utf8mb4_bin" }
