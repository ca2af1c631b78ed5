package sqlcrun

import (
	"path"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// requestInput asks for the request (a, b) of the table orders.
func requestInput() Input {
	column := func(text string, col int) spec.Name {
		return spec.Name{Text: text, Pos: diag.Pos{File: "events.yaml", Line: 9, Col: col}}
	}
	return Input{Dir: "../here", SQL: sqlgen.Result{Reconciles: []sqlgen.Reconcile{{Source: &spec.Source{
		Table:   spec.Name{Text: "orders"},
		Request: []spec.Name{column("a", 17), column("b", 20)},
	}}}}}
}

// TestRequestNotUnique: no key of the table tells one request from another.
func TestRequestNotUnique(t *testing.T) {
	const table = "CREATE TABLE orders (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT);\n"
	for name, ddl := range map[string]string{
		"no key at all":         "CREATE TABLE orders (a INT, b INT)",
		"another column's":      table,
		"inline":                "CREATE TABLE orders (a INT, b INT, c INT UNIQUE KEY)",
		"a column more":         "CREATE TABLE orders (a INT, b INT, c INT, UNIQUE (a, b, c), PRIMARY KEY (c, a))",
		"no unique key":         "CREATE TABLE orders (a INT, b INT, KEY (a, b), INDEX x (a), FULLTEXT KEY (b))",
		"in a comment":          "CREATE TABLE orders (a INT, b INT -- , UNIQUE (a, b)\n # UNIQUE (a)\n /* , UNIQUE (b) */)",
		"in a text":             `CREATE TABLE orders (a INT COMMENT 'a UNIQUE '' UNIQUE', b INT DEFAULT "UNIQUE \" UNIQUE" COMMENT 'it''s; UNIQUE')`,
		"in a condition":        "CREATE TABLE orders (a INT CHECK (a IN (SELECT UNIQUE FROM x)), b INT, CONSTRAINT b CHECK (b > 0))",
		"a name":                "CREATE TABLE orders (`unique` INT, a INT, b INT, `primary` INT, CONSTRAINT `unique` FOREIGN KEY (a) REFERENCES t (id))",
		"another table's":       table + "CREATE TABLE orders2 (a INT, b INT, UNIQUE (a, b)); CREATE TABLE orders3 LIKE orders; ALTER TABLE orders2 ADD UNIQUE (a)",
		"another table's index": table + "CREATE UNIQUE INDEX orders ON orders2 (a, b); CREATE UNIQUE INDEX x ON y.orders2 (a)",
		"an index":              table + "CREATE INDEX x ON orders (a, b); CREATE FULLTEXT INDEX y ON orders (b)",
		"a larger index":        table + "CREATE UNIQUE INDEX x ON orders (a, b, c)",
		"other changes":         table + "ALTER TABLE orders ADD d INT, ADD COLUMN (e INT, f INT UNIQUE), ADD KEY (a), ADD UNIQUE (c), MODIFY c INT UNIQUE, ENGINE=InnoDB, RENAME INDEX x TO y",
		"a reference":           table + "CREATE TABLE l (o INT, UNIQUE (o), FOREIGN KEY (o) REFERENCES orders (id)); INSERT INTO orders VALUES (1, 2, 3, 'a;b'); DROP TABLE IF EXISTS orders",
		"other words":           "create table if not exists `shop`.`Orders` (\n`A` int not null,\n`b` int,\nprimary key using btree (`id` desc)\n) engine=InnoDB",
		"a mark of MySQL's":     table + "/*!40101 SET character_set_client = utf8 */;\nCREATE TABLE x (y INT) /*!50100 PARTITION BY HASH (y) */",
		"a difference":          "CREATE TABLE orders (a INT DEFAULT (5--3), b INT)",
	} {
		problems := checkRequests(requestInput(), []schemaFile{{"db/a.sql", []byte(ddl)}})
		if len(problems) != 1 || problems[0].Rule != "request-not-unique" || problems[0].Pos.String() != "events.yaml:9:17" ||
			problems[0].End.Col != 21 || problems[0].Hint != "add UNIQUE (a, b) to the table" ||
			!strings.HasPrefix(problems[0].Related[0].Pos.String(), "../here/db/a.sql:1:") {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// TestRequestUnique: a key tells one request from another, or may do so.
func TestRequestUnique(t *testing.T) {
	const table = "CREATE TABLE orders (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT);\n"
	for name, ddl := range map[string]string{
		"table key":            "CREATE TABLE orders (a INT, b INT, UNIQUE (a, b))",
		"other order":          "CREATE TABLE orders (a INT, b INT, UNIQUE KEY `x` (`b`, `A`))",
		"index":                "CREATE TABLE orders (a INT, b INT, UNIQUE INDEX x (a, b))",
		"constraint":           "CREATE TABLE orders (a INT, b INT, CONSTRAINT x UNIQUE (a, b))",
		"nameless":             "CREATE TABLE orders (a INT, b INT, CONSTRAINT UNIQUE KEY y USING BTREE (a, b) COMMENT 'x')",
		"primary":              "CREATE TABLE orders (a INT, b INT, PRIMARY KEY (a, b))",
		"inline":               "CREATE TABLE orders (a INT NOT NULL UNIQUE, b INT)",
		"inline primary":       "CREATE TABLE orders (a INT, b VARCHAR(9) CHARACTER SET ascii PRIMARY KEY)",
		"inline key":           "CREATE TABLE orders (a INT AUTO_INCREMENT KEY, b INT)",
		"serial":               "CREATE TABLE orders (a SERIAL, b INT)",
		"fewer columns":        "CREATE TABLE orders (a INT, b INT, UNIQUE (b))",
		"prefix":               "CREATE TABLE orders (a TEXT, b INT, UNIQUE (a(10) ASC, b DESC))",
		"expression":           "CREATE TABLE orders (a INT, b INT, UNIQUE ((LOWER(a)), b))",
		"generated":            "CREATE TABLE orders (a INT, b INT, k CHAR(64) AS (SHA2(CONCAT(a, b), 256)) STORED, UNIQUE (k))",
		"generated inline":     "CREATE TABLE orders (a INT, b INT, k INT GENERATED ALWAYS AS (a + b) VIRTUAL UNIQUE)",
		"within a mark":        "CREATE TABLE orders (a INT, b INT /*!80000 , UNIQUE (a, b) */)",
		"unique index":         table + "CREATE UNIQUE INDEX x ON shop.orders (a, b)",
		"unique index, more":   table + "CREATE OR REPLACE UNIQUE INDEX IF NOT EXISTS x USING BTREE ON `Orders` (b)",
		"added":                table + "ALTER TABLE orders ADD UNIQUE (a, b)",
		"added, named":         table + "ALTER TABLE `orders` ADD COLUMN d INT, ADD CONSTRAINT x UNIQUE KEY (a, b)",
		"added, guarded":       table + "ALTER ONLINE IGNORE TABLE IF EXISTS orders ADD CONSTRAINT IF NOT EXISTS x UNIQUE (a)",
		"added primary":        table + "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)",
		"added column":         table + "ALTER TABLE orders ADD COLUMN IF NOT EXISTS b INT UNIQUE",
		"added columns":        table + "ALTER TABLE orders ADD (a INT, UNIQUE (b))",
		"modified":             table + "ALTER TABLE orders MODIFY COLUMN a INT UNIQUE",
		"changed":              table + "ALTER TABLE orders CHANGE a a BIGINT UNIQUE",
		"column dropped":       "CREATE TABLE orders (a INT, b INT, c INT, UNIQUE (a, b, c)); ALTER TABLE orders DROP COLUMN c",
		"dropped again":        "CREATE TABLE orders (a INT, b INT, UNIQUE x (a, b)); ALTER TABLE orders DROP KEY x",
		"no such table":        "CREATE TABLE order_line (a INT, b INT)",
		"a view":               "CREATE TABLE t (a INT, b INT); CREATE VIEW orders AS SELECT a, b FROM t",
		"like":                 "CREATE TABLE t (a INT, b INT, UNIQUE (a, b)); CREATE TABLE orders LIKE t",
		"like in parentheses":  "CREATE TABLE orders (LIKE t)",
		"from a query":         "CREATE TABLE orders AS SELECT a, b FROM t",
		"renamed column":       table + "ALTER TABLE orders RENAME COLUMN id TO a",
		"renamed by change":    table + "ALTER TABLE orders CHANGE id a INT",
		"renamed":              table + "RENAME TABLE orders TO old, t TO orders",
		"renamed by alter":     table + "ALTER TABLE t RENAME TO orders",
		"renamed away":         table + "ALTER TABLE orders RENAME AS old",
		"exchanged":            table + "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE orders",
		"prepared":             table + "SET @s = 'ALTER TABLE orders ADD UNIQUE (a)'; PREPARE s FROM @s; EXECUTE s",
		"in a procedure":       table + "CREATE PROCEDURE p() ALTER TABLE orders ADD UNIQUE (a, b)",
		"a client's command":   table + "source orders.sql",
		"unclosed text":        table + "SELECT 'a",
		"unclosed comment":     table + "/* UNIQUE",
		"unclosed mark":        table + "/*!80000 SELECT 1",
		"unclosed parentheses": "CREATE TABLE orders (a INT, b INT, KEY (a)",
		"no columns":           "CREATE TABLE orders (a INT, b INT, UNIQUE KEY x)",
		"odd constraint":       "CREATE TABLE orders (a INT, b INT, CONSTRAINT x)",
		"odd comma":            "CREATE TABLE orders (a INT, b INT, )",
	} {
		if problems := checkRequests(requestInput(), []schemaFile{{"a.sql", []byte(ddl)}}); len(problems) != 0 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
	// In whichever file the key is.
	files := []schemaFile{{"a.sql", []byte(table)}, {"b.sql", []byte("ALTER TABLE orders ADD UNIQUE (a, b)")}}
	if problems := checkRequests(requestInput(), files); len(problems) != 0 {
		t.Errorf("two files: %+v", problems)
	}
}

// TestRequestCheckedWithoutRun: a project that was generated by a version that
// didn't ask is told of it, too.
func TestRequestCheckedWithoutRun(t *testing.T) {
	in, _ := input(t, "write")
	out, _, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range out.Files {
		if err := in.Root.MkdirAll(path.Dir(f.Path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := in.Root.WriteFile(f.Path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in.SQL.Reconciles = requestInput().SQL.Reconciles
	in.SQL.Reconciles[0].Source.Table.Text = "mine"
	in.Log = func(event string) {
		if strings.HasPrefix(event, "sqlc run") {
			t.Error(event)
		}
	}
	if _, problems, err := Run(t.Context(), in); err != nil || len(problems) != 1 {
		t.Error(problems, err)
	}
}

// FuzzReadTable: no DDL, however broken, stops the generator.
func FuzzReadTable(f *testing.F) {
	for _, ddl := range []string{
		"CREATE TABLE orders (a INT, UNIQUE (a(10) DESC));", "ALTER TABLE orders ADD (a INT)", "ALTER TABLE orders", "CREATE", "CREATE TABLE orders",
		"CREATE UNIQUE INDEX x ON orders ((a))", "/*!9*/ orders `'\"\\", "x.orders", "ALTER TABLE orders ,", "CREATE TABLE orders ())(",
	} {
		f.Add(ddl)
	}
	f.Fuzz(func(t *testing.T, ddl string) {
		_ = checkRequests(requestInput(), []schemaFile{{"a.sql", []byte(ddl)}})
		statements, _ := statementsOf(ddl)
		for _, statement := range statements {
			for _, tok := range statement {
				if tok.at < 0 || tok.at >= len(ddl) {
					t.Errorf("%+v is outside of %q", tok, ddl)
				}
			}
		}
	})
}
