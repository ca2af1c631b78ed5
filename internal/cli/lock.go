package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/gogen"
	"github.com/outboxgen/outboxgen/internal/lockfile"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (a *app) lockCommand() *cobra.Command {
	var accept []string
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Write down what is published, so that it can't change any more",
		Long: `Write down in events.lock.yaml what events.yaml publishes, before a release.

From then on generate, check and lock itself refuse an events.yaml that breaks
what is locked. New events, versions and consumers are not locked before the
next run of lock. Commit the file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.lock(cmd.Context(), accept) },
	}
	acceptFlag(cmd, &accept)
	return cmd
}

func (a *app) lock(ctx context.Context, accept []string) error {
	if err := checkAccepted(accept); err != nil {
		return err
	}
	p, err := openProject(a.config)
	if err != nil {
		return err
	}
	defer p.close()
	model, err := readModel(p.config)
	if err != nil {
		return err
	}
	before, err := readLock(p.config)
	if err != nil {
		return err
	}
	if problems := without(before.broken(model), accept); len(problems) > 0 {
		return found(problems)
	}
	data, err := renderLock(model, before)
	if err != nil {
		return err
	}
	report, err := fileset.Write(ctx, p.root, []fileset.File{{Path: filepath.Base(before.file), Data: data}}, nil)
	switch {
	case err != nil:
		return err
	case len(report.Problems) > 0:
		return found(p.inTheWay(report.Problems))
	case report.Clean():
		a.printf("outboxgen: %s is up to date\n", before.file)
	default:
		a.printf("outboxgen: wrote %s\n", before.file)
	}
	return a.reportClean()
}

// readModel reads and checks an events.yaml.
func readModel(config string) (*spec.Model, error) {
	events, err := readConfig(config)
	if err != nil {
		return nil, err
	}
	model, problems := spec.Parse(config, events)
	return model, found(problems)
}

// renderLock makes the lock of a model that breaks nothing of the last one. What it
// returns has been read back: a lock that can't be is of no use.
func renderLock(model *spec.Model, before lock) ([]byte, error) {
	fixtures, problems := gogen.Fixtures(gogen.Input{Model: model, Locked: before.model})
	if len(problems) > 0 {
		return nil, found(problems)
	}
	data := lockfile.Render(model, before.model, fixtures)
	back, problems := spec.ParseLock(before.file, data)
	if len(problems) == 0 {
		problems = compat.Compare(back, model)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s can't be written: it would not be read back as it is meant: %w", before.file, problems)
	}
	return data, nil
}

// unlocked tells what the lock doesn't have yet.
func (a *app) unlocked(model *spec.Model, locked lock) (diag.List, error) {
	if locked.model == nil {
		return a.notLocked(nil, diag.Pos{File: a.config}, locked.file+" does not exist"), nil
	}
	var list diag.List
	for _, m := range compat.Missing(locked.model, model) {
		list = a.notLocked(list, m.Pos, m.Text+" is not locked")
	}
	if len(list) > 0 {
		return list, nil
	}
	data, err := renderLock(model, locked)
	if err == nil && string(data) != string(locked.src) {
		list = a.notLocked(list, diag.Pos{File: locked.file}, "the lock is not that of events.yaml as it is")
	}
	return list, err
}

func (a *app) notLocked(list diag.List, at diag.Pos, message string) diag.List {
	return append(list, diag.Diagnostic{Pos: at, Rule: "not-locked", Message: message, Hint: "run " + a.commandLine("lock") + " and commit the lock, before the release"})
}
