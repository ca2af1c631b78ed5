package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/waiting"
)

type breakingFlags struct {
	against string
	dsn     string
	accept  []string
}

func (a *app) breakingCommand() *cobra.Command {
	var flags breakingFlags
	cmd := &cobra.Command{
		Use:   "breaking",
		Short: "Tell which changes of events.yaml break what was published",
		Long: `Tell which changes of events.yaml break what was published: messages that wait,
consumers that are deployed, tables and queues. Exit code 1 when there is one.

Compares with the lock, or with what --against names: a file, or events.yaml as it
was at a branch, tag or commit of git.

With --dsn it also looks into the database for rows that the new events.yaml could
not read: events that are pending or dead, and those that consumers have parked.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return hinted{fmt.Errorf("breaking takes no argument, and %q is one", args[0]), "name it with --against: " + a.commandLine("breaking --against "+args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "against", "dsn"); err != nil {
				return err
			}
			return a.breaking(cmd.Context(), flags)
		},
	}
	acceptFlag(cmd, &flags.accept)
	cmd.Flags().StringVar(&flags.against, "against", "", "a git `REF`, or a file, to compare with. Defaults to the lock")
	cmd.Flags().StringVar(&flags.dsn, "dsn", "", "`DSN` of the database whose waiting rows must stay readable, as go-sql-driver/mysql has it. Defaults to $"+dsn.Variable)
	return cmd
}

func (a *app) breaking(ctx context.Context, flags breakingFlags) error {
	if err := checkAccepted(flags.accept); err != nil {
		return err
	}
	if err := isConfig(a.config); err != nil {
		return err
	}
	current, err := readModel(a.config)
	if err != nil {
		return err
	}
	base, name, err := a.base(ctx, flags)
	if err != nil {
		return err
	}
	var list diag.List
	if base != nil {
		list = without(compat.Compare(base, current), flags.accept)
	}
	if dsn.Given(flags.dsn) {
		rows, err := waitingRows(ctx, flags.dsn, base, current)
		list = append(list, rows...)
		if err = withHint(err); err != nil && len(list) == 0 {
			return err
		}
		if err != nil {
			list.Add(couldNotRun(err))
		}
	}
	if len(list) > 0 {
		return found(list)
	}
	a.printf("outboxgen: %s breaks nothing of %s\n", a.config, name)
	if base != nil && !dsn.Given(flags.dsn) && compat.Removed(base, current) {
		a.printf("outboxgen: rows of what is gone may wait in a database, which was not looked into: --dsn looks for rows that wait\n")
	}
	return a.reportClean()
}

// base is what was published, and how it is called. Without a lock and --against there
// is none, which is enough only for the rows of a database.
func (a *app) base(ctx context.Context, flags breakingFlags) (*spec.Model, string, error) {
	if flags.against != "" {
		model, err := against(ctx, a.config, flags.against)
		return model, flags.against, err
	}
	locked, err := readLock(a.config)
	switch {
	case err != nil:
		return nil, "", err
	case locked.model != nil:
		return locked.model, locked.file, nil
	case dsn.Given(flags.dsn):
		return nil, "what waits in the database", nil
	}
	return nil, "", hinted{
		fmt.Errorf("%s does not exist: there is nothing to compare with", locked.file),
		"name what was published, with --against main for example, or write the lock with " + a.commandLine("lock"),
	}
}

func waitingRows(ctx context.Context, text string, base, current *spec.Model) (diag.List, error) {
	db, err := dsn.Open(text)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return waiting.Check(ctx, db, base, current)
}

func withHint(err error) error {
	var w *waiting.Error
	if errors.As(err, &w) {
		return hinted{err, w.Hint}
	}
	var d *dsn.Error
	if errors.As(err, &d) {
		return hinted{err, d.Hint}
	}
	return err
}
