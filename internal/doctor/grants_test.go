package doctor

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/privileges"
)

// asUser makes a user with the privileges of a role, whose pool the patient is looked at through.
func (p *patient) asUser(role privileges.Role) privileges.Account {
	p.Helper()
	a := privileges.Account{User: "d_" + string(role), Host: "127.0.0.1", Database: p.Name}
	p.exec("CREATE USER " + a.String() + " IDENTIFIED BY 'pass'")
	p.Cleanup(func() { p.exec("DROP USER " + a.String()) })
	server := map[dbserver.Flavor]privileges.Server{dbserver.MySQL: privileges.MySQL, dbserver.MariaDB: privileges.MariaDB}[p.Flavor]
	set, problems := privileges.Of(p.cfg.Model, server, role, "")
	if len(problems) > 0 {
		p.Fatal(problems)
	}
	for _, s := range set.Statements(a) {
		p.exec(s)
	}
	if len(set.Foreign) > 0 {
		p.exec("CREATE TABLE orders (id INT, tenant_id INT, request_id INT, acceptance_event_id INT, created_at INT, other INT)",
			"GRANT SELECT (id, tenant_id, request_id, acceptance_event_id, created_at) ON "+p.Name+".orders TO "+a.String())
	}
	cfg := p.Config()
	cfg.User, cfg.Passwd = a.User, "pass"
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = db.Close() })
	p.cfg.Databases.Outbox, p.cfg.Role = db, role
	return a
}

func (p *patient) rules() string {
	p.Helper()
	return strings.Join(rulesOf(p.check()), ", ")
}

// A user with the privileges that are printed misses none and has none too many; it is told of one
// that it loses as a GRANT, which cures it, and of one that it gets.
func TestPrivileges(t *testing.T) {
	for _, role := range privileges.Roles() {
		t.Run(string(role), func(t *testing.T) {
			each(t, "lanes", func(p *patient) {
				a := p.asUser(role)
				r := p.check()
				if strings.Contains(described(r), "privilege-") || r.Failing() || strings.Contains(strings.Join(r.Missed, ""), "privileges") {
					p.Errorf("%s%v", described(r), r.Missed)
				}
				what := map[privileges.Role]string{
					privileges.Writer: "INSERT (payload) ON outbox_event", privileges.Relay: "UPDATE (status) ON outbox_event",
					privileges.Consumer: "DELETE ON parked_event", privileges.EventPurger: "DELETE ON outbox_event",
					privileges.DedupPurger: "SELECT (id) ON consumed_event", privileges.Operator: "INSERT (reason) ON outbox_pause",
					privileges.Reader: "SELECT (status) ON outbox_event", privileges.Migrator: "ALTER ON outbox_event",
				}[role]
				on := strings.Replace(what, " ON ", " ON "+p.Name+".", 1)
				p.exec("REVOKE " + on + " FROM " + a.String())
				r = p.check()
				var cure string
				for _, d := range r.Findings {
					if d.Rule == "privilege-missing" {
						cure += d.Hint
					}
				}
				if !strings.HasPrefix(cure, "GRANT "+strings.Fields(what)[0]) || strings.Count(cure, ";") != 1 {
					p.Fatalf("without %s: %s", what, described(r))
				}
				p.exec(strings.TrimSuffix(cure, ";"))
				if got := p.rules(); strings.Contains(got, "privilege-") {
					p.Errorf("cured: %s", got)
				}
				if role == privileges.Migrator {
					return
				}
				if role == privileges.Relay { // each table that lacks something is a finding
					p.exec("REVOKE UPDATE (status) ON " + p.Name + ".outbox_event FROM " + a.String())
					p.exec("REVOKE SELECT (reason) ON " + p.Name + ".outbox_pause FROM " + a.String())
					if got := p.rules(); strings.Count(got, "privilege-missing") != 2 {
						p.Errorf("two tables: %s", got)
					}
					p.exec("GRANT UPDATE (status) ON " + p.Name + ".outbox_event TO " + a.String())
					p.exec("GRANT SELECT (reason) ON " + p.Name + ".outbox_pause TO " + a.String())
				}
				p.exec("GRANT UPDATE (payload) ON " + p.Name + ".outbox_event TO " + a.String())
				if r := p.check(); !strings.Contains(described(r), "more than the role "+string(role)+" needs: UPDATE (`payload`) ON `outbox_event`") {
					p.Errorf("%s", described(r))
				}
			})
		})
	}
}

// Whoever may do anything lacks nothing, and has too much.
func TestPrivilegesOfRoot(t *testing.T) {
	each(t, "lanes", func(p *patient) {
		p.cfg.Role = privileges.Relay
		p.finds("note privilege-spare", "ON *.*")
	})
}
