package schemadiff

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

// Live is what a database has of the tables and views that were asked for.
type Live struct {
	Schema ddl.Schema
	Server Server
}

// Server is what the statements depend on.
type Server struct {
	MariaDB bool
	Version [3]int
	Strict  bool // a value that doesn't fit is an error in new sessions, not cut
}

// AtLeast reports a version or a later one.
func (s Server) AtLeast(major, minor, patch int) bool {
	for i, n := range [3]int{major, minor, patch} {
		if s.Version[i] != n {
			return s.Version[i] > n
		}
	}
	return true
}

// Read reads the tables and views of these names in the connection's database. The
// session's sql_mode must not have ANSI_QUOTES. A table that the user has no right on
// isn't there.
func Read(ctx context.Context, db *sql.DB, names []string) (Live, error) {
	// One connection and one snapshot would not help: DDL is in no transaction.
	r := reader{ctx: ctx, db: db, names: names, live: &Live{}}
	for _, step := range []func() error{r.server, r.tables, r.columns, r.jsonChecks, r.keys, r.views} {
		if err := step(); err != nil {
			return Live{}, err
		}
	}
	return *r.live, nil
}

type reader struct {
	ctx   context.Context
	db    *sql.DB
	names []string
	live  *Live
}

var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)`)

func (r *reader) server() error {
	var version, mode string
	var schema sql.NullString
	if err := r.db.QueryRowContext(r.ctx, "SELECT VERSION(), @@GLOBAL.sql_mode, DATABASE()").Scan(&version, &mode, &schema); err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	if !schema.Valid {
		return refuse("name the database in the DSN, before the question mark", "the connection is in no database")
	}
	var err error
	r.live.Server, err = ServerOf(version, mode)
	return err
}

// ServerOf tells what a server is from its version and its sql_mode. The error, a *RefusedError,
// is for one that is too old or not known.
func ServerOf(version, mode string) (Server, error) {
	s := Server{
		MariaDB: strings.Contains(version, "MariaDB"),
		Strict:  strings.Contains(mode, "STRICT_TRANS_TABLES") || strings.Contains(mode, "STRICT_ALL_TABLES"),
	}
	const hint = "use MySQL 8.0.19 or later, or MariaDB 10.6 or later"
	// A proxy may show MariaDB as it shows itself to old replicas: "5.5.5-10.11.6-MariaDB".
	m := versionPattern.FindStringSubmatch(strings.TrimPrefix(version, "5.5.5-"))
	if m == nil {
		return Server{}, refuse(hint, "the server's version %q is not known", version)
	}
	for i := range s.Version {
		s.Version[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	if s.MariaDB && !s.AtLeast(10, 6, 0) || !s.MariaDB && !s.AtLeast(8, 0, 19) {
		return Server{}, refuse(hint, "the server's version %s is too old", version)
	}
	return s, nil
}

// each runs a query on information_schema whose end is the condition on the names.
func (r *reader) each(query, order string, scan func(*sql.Rows) error) error {
	args := make([]any, len(r.names))
	for i, name := range r.names {
		args[i] = name
	}
	query += " AND TABLE_NAME IN (?" + strings.Repeat(", ?", len(args)-1) + ") ORDER BY " + order
	rows, err := r.db.QueryContext(r.ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read information_schema: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read information_schema: %w", err)
	}
	return nil
}

func (r *reader) tables() error {
	return r.each("SELECT TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, ''), COALESCE(TABLE_COLLATION, '') "+
		"FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()", "TABLE_NAME", func(rows *sql.Rows) error {
		var name, kind, engine, collation string
		if err := rows.Scan(&name, &kind, &engine, &collation); err != nil {
			return err
		}
		if kind == "VIEW" {
			r.live.Schema.Views = append(r.live.Schema.Views, ddl.View{Name: name})
			return nil
		}
		charset, _, _ := strings.Cut(collation, "_")
		r.live.Schema.Tables = append(r.live.Schema.Tables, ddl.Table{Name: name, Engine: engine, Charset: charset})
		return nil
	})
}

func (r *reader) keys() error {
	// MySQL has functional parts and invisible indexes, MariaDB ignored ones.
	part, hidden := "COALESCE(COLUMN_NAME, CONCAT('(', EXPRESSION, ')'))", "IS_VISIBLE = 'NO'"
	if r.live.Server.MariaDB {
		part, hidden = "COLUMN_NAME", "IGNORED = 'YES'"
	}
	query := fmt.Sprintf("SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE = 0, %s, %s, COALESCE(SUB_PART, 0), COALESCE(COLLATION, ''), INDEX_TYPE "+
		"FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()", hidden, part)
	return r.each(query, "TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX", func(rows *sql.Rows) error {
		var table, name, column, direction, kind string
		var unique, invisible bool
		var prefix int
		if err := rows.Scan(&table, &name, &unique, &invisible, &column, &prefix, &direction, &kind); err != nil {
			return err
		}
		if prefix > 0 {
			column += fmt.Sprintf("(%d)", prefix)
		}
		if direction == "D" {
			column += " desc"
		}
		if kind != "BTREE" {
			column += " using " + strings.ToLower(kind)
		}
		t := r.live.Schema.Table(table)
		switch {
		case t == nil: // made since
		case name == "PRIMARY":
			t.PrimaryKey = append(t.PrimaryKey, column)
		case t.Key(name) == nil:
			t.Keys = append(t.Keys, ddl.Key{Name: name, Unique: unique, Hidden: invisible, Columns: []string{column}})
		default:
			key := t.Key(name)
			key.Columns = append(key.Columns, column)
		}
		return nil
	})
}

func (r *reader) views() error {
	return r.each("SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()", "TABLE_NAME",
		func(rows *sql.Rows) error {
			var name, query string
			if err := rows.Scan(&name, &query); err != nil {
				return err
			}
			if query == "" {
				return refuse("grant it SHOW VIEW on the database", "the user may not see the definition of the view %s", name)
			}
			for i := range r.live.Schema.Views {
				if v := &r.live.Schema.Views[i]; v.Name == name {
					v.Query = ddl.Canonical(query)
				}
			}
			return nil
		})
}
