package cli

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
)

func (a *app) checkCommand() *cobra.Command {
	var force, locked bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Tell which files generate would write or remove, for CI",
		Long: `Tell which files generate would write or remove, and change nothing.

Prints a line a file, "changed", "missing" or "stale" before its path, and ends
with the command that repairs it and exit code 1 when there is one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), force, locked) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "make everything anew, whatever was kept of the last run")
	cmd.Flags().BoolVar(&locked, "locked", false, "also fail on what isn't in the lock yet, for a release")
	return cmd
}

func (a *app) check(ctx context.Context, force, locked bool) error {
	p, err := openProject(a.config)
	if err != nil {
		return err
	}
	defer p.close()
	plan, err := a.plan(ctx, p, force)
	if err != nil {
		return err
	}
	report, err := fileset.Compare(p.root, plan.files, plan.owned)
	if err != nil {
		return err
	}
	var unlocked diag.List
	if locked {
		if unlocked, err = a.unlocked(plan.model, plan.lock); err != nil {
			return err
		}
	}
	if report.Clean() && len(unlocked) == 0 {
		a.printf("outboxgen: %d files are up to date\n", report.Unchanged)
		return a.reportClean()
	}
	return a.reportDifferences(p, report, unlocked)
}

// differences are the kinds of files that check reports, with a text for the
// formats in which a finding needs one.
var differences = []struct {
	kind, rule, message string
	paths               func(fileset.Report) []string
}{
	{"changed", "changed-file", "differs from what events.yaml describes", func(r fileset.Report) []string { return r.Changed }},
	{"missing", "missing-file", "is described by events.yaml and is not there", func(r fileset.Report) []string { return r.Missing }},
	{"stale", "stale-file", "is generated, and events.yaml no longer describes it", func(r fileset.Report) []string { return r.Stale }},
}

func (a *app) reportDifferences(p *project, report fileset.Report, unlocked diag.List) error {
	list := p.inTheWay(report.Problems)
	for _, d := range differences {
		for _, file := range d.paths(report) {
			if a.format == formatText {
				fmt.Fprintf(a.stdout, "%s %s\n", d.kind, path.Join(p.dir, file))
				continue
			}
			list.Add(diag.Diagnostic{
				Pos: diag.Pos{File: path.Join(filepath.ToSlash(p.dir), file)}, Rule: d.rule, Message: d.message, Hint: "run " + a.commandLine("generate"),
			})
		}
	}
	if len(report.Problems) == 0 && !report.Clean() { // generate would stop at one
		a.printf("run: %s\n", a.commandLine("generate"))
	}
	// In text the lines above are the report; with nothing more to say, the
	// findings are empty and only set the exit code.
	return findings{append(list, unlocked...).Sorted()}
}
