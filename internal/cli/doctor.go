package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/doctor"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/privileges"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// serviceDSNVariable is the environment variable that --service-dsn is read from where it is
// not given.
const serviceDSNVariable = "OUTBOXGEN_SERVICE_DSN"

type doctorFlags struct {
	opsFlags
	services   []string
	role       string
	grants     bool
	user, host string
}

func (a *app) doctorCommand() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at a service's databases, and say what is wrong and what to do",
		Long: `Look at a service's databases: the server, its version and its settings, the
tables, the plans of claims, what is purged, who is there to publish, clocks. Each
finding is an error, a warning or a note, and says what to do. The last line says
what was looked at, and what was not. Nothing is changed: the row by which SKIP
LOCKED is tried is rolled back.

Exit code 1 when there is an error or a warning, 0 with notes only, 2 when it could
not look.

With --service-dsn the DSN that the service itself connects with is looked at too. With
--role it compares the privileges of the user of --dsn with those that a part of the
service needs; --grants prints these, and looks at nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "role", "user", "host"); err != nil {
				return err
			}
			if flags.role != "" && !slices.Contains(privileges.Roles(), privileges.Role(flags.role)) {
				return hinted{fmt.Errorf("unknown role %q", flags.role), orNearest("the roles are "+strings.Join(roleNames(), ", "), flags.role, roleNames())}
			}
			if flags.grants {
				return a.printGrants(cmd, flags)
			}
			for _, name := range []string{"user", "host"} {
				if cmd.Flags().Changed(name) {
					return hinted{fmt.Errorf("--%s is for --grants", name), "add --grants, or leave it out"}
				}
			}
			return a.doctor(cmd, flags)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringArrayVar(&flags.services, "service-dsn", nil, "the `DSN` that the service connects with, as it gives it to runtime/mysqldb; better in the environment, as "+serviceDSNVariable+"; may be given several times")
	cmd.Flags().StringVar(&flags.role, "role", "", "what the user is for: "+strings.Join(roleNames(), ", "))
	cmd.Flags().BoolVar(&flags.grants, "grants", false, "print the least privileges, of --role or of all roles, as SQL")
	cmd.Flags().StringVar(&flags.user, "user", "", "with --grants: the user's `name`. Defaults to the service's and the role's, as in orders_relay")
	cmd.Flags().StringVar(&flags.host, "host", "%", "with --grants: `where` the user connects from, as CREATE USER has it")
	return cmd
}

func roleNames() []string {
	var names []string
	for _, r := range privileges.Roles() {
		names = append(names, string(r))
	}
	return names
}

func (a *app) doctor(cmd *cobra.Command, flags doctorFlags) error {
	m, in, closeAll, err := a.databases(cmd, flags.opsFlags)
	if err != nil {
		return err
	}
	defer closeAll()
	if _, err := ops.New(m, in); err != nil { // a consumer that isn't there
		return opsError(err)
	}
	services := flags.services
	if text := os.Getenv(serviceDSNVariable); len(services) == 0 && text != "" {
		services = []string{text}
	}
	r, err := doctor.Check(cmd.Context(), doctor.Config{Model: m, Databases: in, ServiceDSNs: services, Role: privileges.Role(flags.role)})
	if err != nil {
		return err
	}
	if a.format != formatText {
		r.Findings.Add(diag.Diagnostic{Severity: diag.SeverityNote, Rule: "looked-at", Message: lookedAt(r)})
	}
	if err := a.report(r.Findings); err != nil {
		return err
	}
	a.printf("outboxgen: %s\n", lookedAt(r))
	if r.Failing() {
		return errReported
	}
	return nil
}

// lookedAt says what was looked at: silence alone doesn't tell.
func lookedAt(r doctor.Report) string {
	counts := map[diag.Severity]int{}
	for _, d := range r.Findings {
		if d.Rule != "looked-at" {
			counts[d.Severity]++
		}
	}
	text := fmt.Sprintf("%s: %s, %s, %s; looked at %s", r.Server, plural(counts[diag.SeverityError], "error"),
		plural(counts[diag.SeverityWarning], "warning"), plural(counts[diag.SeverityNote], "note"), strings.Join(r.Looked, ", "))
	if len(r.Missed) > 0 {
		text += "; not at " + strings.Join(r.Missed, ", ")
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printGrants prints the least privileges.
func (a *app) printGrants(cmd *cobra.Command, flags doctorFlags) error {
	if flags.user != "" && flags.role == "" {
		return hinted{errors.New("--user names one user, and there are several roles"), "say which one with --role"}
	}
	m, err := a.model()
	if err != nil {
		return err
	}
	server, database, err := grantsFor(cmd.Context(), flags.dsn)
	if err != nil {
		return err
	}
	text := "-- The least privileges of each part of the service. Run them once the tables are there, each\n" +
		"-- after its CREATE USER; those of the migrator may come first.\n"
	if server == privileges.Either {
		text += "-- These do on both MySQL and MariaDB; with --dsn they are cut to the server.\n"
	}
	for _, role := range privileges.Roles() {
		if flags.role != "" && flags.role != string(role) {
			continue
		}
		for _, consumer := range consumersOf(m, role, flags.user) {
			set, problems := privileges.Of(m, server, role, consumer)
			if len(problems) > 0 {
				return found(problems)
			}
			text += "\n" + set.SQL(privileges.Account{User: userOf(m, set, flags.user), Host: flags.host, Database: database})
		}
	}
	return a.print(text)
}

// consumersOf are those that have a user of their own, and otherwise nobody in particular.
func consumersOf(m *spec.Model, role privileges.Role, user string) []string {
	if role != privileges.Consumer || user != "" || len(m.Consumers) == 0 {
		return []string{""}
	}
	var names []string
	for _, c := range m.Consumers {
		names = append(names, c.Name.Text)
	}
	return names
}

// userOf is the name that is asked for, or one of 32 characters at most, which MySQL takes.
func userOf(m *spec.Model, set privileges.Set, asked string) string {
	if asked != "" {
		return asked
	}
	name := m.Service.Text + "_" + string(set.Role)
	if set.Consumer != "" {
		name = m.Service.Text + "_" + set.Consumer
	}
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	return name[:min(len(name), 32)]
}

// grantsFor asks the server what it is, where one is named.
func grantsFor(ctx context.Context, text string) (privileges.Server, string, error) {
	if !dsn.Given(text) {
		return privileges.Either, "", nil
	}
	db, err := dsn.Open(text)
	if err != nil {
		return 0, "", withHint(err)
	}
	defer db.Close()
	var version, database string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), DATABASE()").Scan(&version, &database); err != nil {
		return 0, "", fmt.Errorf("ask the server for its version: %w", err)
	}
	if strings.Contains(version, "MariaDB") {
		return privileges.MariaDB, database, nil
	}
	return privileges.MySQL, database, nil
}
