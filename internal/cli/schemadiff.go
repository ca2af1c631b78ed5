package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
)

func (a *app) schemaDiffCommand() *cobra.Command {
	var m migrationFlags
	var text string
	var options schemadiff.Options
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Print the statements from a database's tables to those that are needed, for CI too",
		Long: `Print the statements that lead from the tables a database has to those that
events.yaml and this version of outboxgen need. Nothing is changed.

Each ALTER TABLE names its ALGORITHM and LOCK, so that the server refuses it
rather than keep writers waiting; where writers have to wait, a comment and a
finding say so. What the database has too much is printed as a comment, without
--drop. Ends with exit code 1 when there is a difference.

The DSN is one of go-sql-driver/mysql: user:password@tcp(host:3306)/database. The
user needs a right on our tables, such as SELECT, and SHOW VIEW.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "dsn"); err != nil {
				return err
			}
			return a.schemaDiff(cmd.Context(), text, m, options)
		},
	}
	m.register(cmd.Flags(), "outbox_upgrade")
	cmd.Flags().StringVar(&text, "dsn", "", "the database; better in the environment, as "+dsn.Variable+", where no list of processes shows it")
	cmd.Flags().BoolVar(&options.Drop, "drop", false, "drop what the database has too much, instead of only naming it")
	return cmd
}

func (a *app) schemaDiff(ctx context.Context, text string, m migrationFlags, options schemadiff.Options) error {
	if err := m.check(); err != nil {
		return err
	}
	layouts, err := a.layouts()
	if err != nil {
		return err
	}
	db, err := dsn.Open(text)
	if err != nil {
		return withHint(err)
	}
	defer db.Close()
	live, err := schemadiff.Read(ctx, db, schemadiff.Names(layouts))
	if err != nil {
		return refused(err)
	}
	plan, err := schemadiff.Diff(layouts, live, options)
	if err != nil {
		return refused(err)
	}
	if len(plan.Findings) == 0 {
		if a.format == formatText {
			fmt.Fprintf(a.stderr, "outboxgen: the tables are as %s asks for\n", a.config)
		}
		return a.reportClean()
	}
	if err := a.emitPlan(m, plan); err != nil {
		return err
	}
	return found(plan.Findings)
}

func (a *app) emitPlan(m migrationFlags, plan schemadiff.Plan) error {
	if m.out != "" && !plan.Runs() {
		return nil // a migration of comments
	}
	return a.emit(m, plan.SQL(), "", func(text string) error {
		if a.format != formatText {
			return nil // stdout is for the findings
		}
		return a.print(text)
	})
}

// refused gives a refusal its hint.
func refused(err error) error {
	var r *schemadiff.RefusedError
	if errors.As(err, &r) {
		return hinted{err, r.Hint}
	}
	return err
}
