package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// files are the four kinds of outbox.
var files = map[string]string{
	"lanes": "../../events.yaml", "rows": "../variants/rows/events.yaml",
	"lanes, deleting": "../variants/lanesdelete/events.yaml", "rows, deleting": "../variants/rowsdelete/events.yaml",
}

func model(t testing.TB, kind string) *spec.Model {
	t.Helper()
	text, err := os.ReadFile(files[kind])
	if err != nil {
		t.Fatal(err)
	}
	m, problems := spec.Parse(files[kind], text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// servers are the package's own: its tests change their settings, and look at what others do.
var servers = map[dbserver.Flavor]func() (*dbserver.Server, error){}

func TestMain(m *testing.M) {
	var started []*dbserver.Server
	for _, flavor := range dbserver.Flavors() {
		servers[flavor] = sync.OnceValues(func() (*dbserver.Server, error) {
			s, err := dbserver.Start(context.Background(), flavor, dbserver.Options{})
			if err == nil {
				started = append(started, s)
			}
			return s, err
		})
	}
	code := m.Run()
	for _, s := range started {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop a server:", err)
		}
	}
	os.Exit(code)
}

// patient is a database with the tables of a kind of outbox, all of it well.
type patient struct {
	dbtest.Database
	*testing.T
	db  *sql.DB
	cfg Config
}

// each runs fn on both servers, one after the other.
func each(t *testing.T, kind string, fn func(p *patient)) {
	t.Helper()
	for _, flavor := range dbserver.Flavors() {
		t.Run(flavor.String()+"/"+kind, func(t *testing.T) {
			server, err := servers[flavor]()
			if err != nil {
				t.Fatal(err)
			}
			p := &patient{Database: dbtest.On(t, flavor, server.DSN("")), T: t}
			p.db = p.Open(t)
			m := model(t, kind)
			result, _ := sqlgen.Generate(m)
			p.exec(result.DDL...)
			p.cfg = Config{Model: m, Databases: ops.Databases{Outbox: p.db}}
			fn(p)
		})
	}
}

func (p *patient) exec(statements ...string) {
	p.Helper()
	for _, s := range statements {
		if _, err := p.db.ExecContext(context.Background(), s); err != nil {
			p.Fatalf("%s: %v", s, err)
		}
	}
}

func (p *patient) check() Report {
	p.Helper()
	r, err := Check(context.Background(), p.cfg)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// well fails the test for everything that is found but that no relay is alive.
func (p *patient) well() {
	p.Helper()
	r := p.check()
	missed := slices.DeleteFunc(slices.Clone(r.Missed), func(what string) bool { return slices.Contains(expected, what) })
	if slices.ContainsFunc(r.Findings, func(d diag.Diagnostic) bool { return !slices.Contains(expected, d.Rule) }) || r.Failing() || len(missed) > 0 {
		p.Errorf("%v\nnot looked at: %v", described(r), missed)
	}
}

// finds fails the test unless there is a finding with that severity and rule, which says so, and
// nothing else but others, "warning events-dead".
func (p *patient) finds(want, says string, others ...string) diag.Diagnostic {
	p.Helper()
	r := p.check()
	var found diag.Diagnostic
	for _, d := range r.Findings {
		name := d.Severity.String() + " " + d.Rule
		switch {
		case name == want && strings.Contains(d.Message, says):
			found = d
		case name == want, d.Severity == diag.SeverityNote && slices.Contains(expected, d.Rule), slices.Contains(others, name):
		default:
			p.Errorf("%s is beside %s: %s", name, want, d.Message)
		}
	}
	if found.Rule == "" {
		p.Errorf("no %s that says %q:\n%s\nnot looked at: %v", want, says, described(r), r.Missed)
	} else if found.Hint == "" {
		p.Errorf("%s doesn't say what to do", want)
	}
	return found
}

// expected is what is no fault of a patient: it has no relay, the events.yaml of some says nothing
// of a broker, and no test names the service's DSN.
var expected = []string{
	"no-relay", "broker-retention-unset", "the service's own DSN (--service-dsn names it)",
	"some of the rows that wait (the first 10000 of a kind were)",
}

func described(r Report) string {
	var b strings.Builder
	_ = diag.Text(&b, r.Findings)
	return b.String()
}
