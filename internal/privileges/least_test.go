package privileges_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/privileges"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// files are the four kinds of outbox.
var files = map[string]string{
	"lanes": "../../events.yaml", "rows": "../variants/rows/events.yaml",
	"lanes, deleting": "../variants/lanesdelete/events.yaml", "rows, deleting": "../variants/rowsdelete/events.yaml",
}

func model(t testing.TB, file string) *spec.Model {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := spec.Parse(file, text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// forgotten are the statements that no role runs, which is a mistake.
func TestEveryStatementHasARole(t *testing.T) {
	for name, file := range files {
		m := model(t, file)
		all, _ := sqlgen.Statements(m)
		if len(all) < 40 {
			t.Errorf("%s: only %d statements", name, len(all))
		}
		var run []string
		for _, role := range privileges.Roles() {
			run = append(run, privileges.StatementNames(m, role)...)
		}
		for _, s := range all {
			kept := m.Outbox.KeepPublished > 0
			unused := kept && s.Name == "DeleteFailures" || !kept && (s.Name == "SelectPurgeable" || s.Name == "DeletePublished") ||
				strings.HasPrefix(s.Name, "Reconcile") || strings.HasSuffix(s.Name, "Version")
			if !slices.Contains(run, s.Name) && !unused {
				t.Errorf("%s: no role runs %s: add it to one in roles.go", name, s.Name)
			}
		}
	}
}

var kinds = map[dbserver.Flavor]privileges.Server{dbserver.MySQL: privileges.MySQL, dbserver.MariaDB: privileges.MariaDB}

// user is a user of the test's own, connected.
type user struct {
	privileges.Account
	admin *sql.DB
	db    *sql.DB
}

func newUser(t *testing.T, server dbtest.Database, admin *sql.DB, name string) *user {
	t.Helper()
	u := &user{Account: privileges.Account{User: "u_" + server.Name[len(server.Name)-12:] + "_" + name, Host: "%", Database: server.Name}, admin: admin}
	u.User = u.User[:min(32, len(u.User))]
	u.exec(t, "CREATE USER "+u.String()+" IDENTIFIED BY 'pass'")
	t.Cleanup(func() { _, _ = admin.Exec("DROP USER " + u.String()) })
	cfg := server.Config()
	cfg.User, cfg.Passwd, cfg.DBName = u.User, "pass", ""
	var err error
	if u.db, err = sql.Open("mysql", cfg.FormatDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.db.Close() })
	return u
}

func (u *user) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := u.admin.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// denied runs statements with values in place of their arguments, and returns what the server
// denied. All else that is wrong with them is of no interest.
func (u *user) denied(t *testing.T, schema string, statements []sqlgen.Statement) []string {
	t.Helper()
	conn, err := u.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "USE "+schema); err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, s := range statements {
		if _, err := conn.ExecContext(t.Context(), "START TRANSACTION"); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.QueryContext(t.Context(), s.With(nil))
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			_ = rows.Close()
		}
		var answer *mysql.MySQLError
		if errors.As(err, &answer) && slices.Contains([]uint16{1044, 1142, 1143, 1227, 1370}, answer.Number) {
			out = append(out, s.Name+": "+answer.Message)
		}
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// pieces are the smallest parts of grants.
func pieces(grants []privileges.Grant) []privileges.Grant {
	var out []privileges.Grant
	for _, g := range grants {
		if len(g.Columns) == 0 {
			out = append(out, g)
		}
		for _, c := range g.Columns {
			out = append(out, privileges.Grant{Table: g.Table, Privilege: g.Privilege, Columns: []string{c}})
		}
	}
	return out
}

// unasked are what MariaDB does not ask for today, as MySQL does: the columns that only a
// multiple-table DELETE reads.
func unasked(flavor dbserver.Flavor, p privileges.Grant) bool {
	return flavor == dbserver.MariaDB && p.Table == "consumed_event" && p.String() == "SELECT (`outcome`)"
}

// What each role is granted is enough for all of its statements, and each piece of it is
// needed by one of them.
func TestLeastPrivileges(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		for name, file := range files {
			t.Run(flavor.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				m := model(t, file)
				server := dbtest.New(t, flavor)
				result, _ := sqlgen.Generate(m)
				server.Exec(t, result.DDL...)
				admin := server.Open(t)
				all, _ := sqlgen.Statements(m)
				for _, role := range []privileges.Role{privileges.Writer, privileges.Relay, privileges.Consumer, privileges.EventPurger, privileges.DedupPurger} {
					set, problems := privileges.Of(m, kinds[flavor], role, "")
					if len(problems) > 0 {
						t.Fatal(problems)
					}
					statements := sqlgen.StatementsOf(all, privileges.StatementNames(m, role)...)
					u := newUser(t, server, admin, string(role))
					for _, s := range set.Statements(u.Account) {
						u.exec(t, s)
					}
					if denied := u.denied(t, server.Name, statements); len(denied) > 0 {
						t.Errorf("%s: denied:\n%s\nwith\n%s", role, strings.Join(denied, "\n"), set.SQL(u.Account))
						continue
					}
					for _, p := range pieces(set.Grants) {
						on := fmt.Sprintf("%s ON %s.%s", p, server.Name, p.Table)
						u.exec(t, "REVOKE "+on+" FROM "+u.String())
						if len(u.denied(t, server.Name, statements)) == 0 && !unasked(flavor, p) {
							t.Errorf("%s: nothing needs %s", role, on)
						}
						u.exec(t, "GRANT "+on+" TO "+u.String())
					}
				}
			})
		}
	}
}
