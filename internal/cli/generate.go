package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/fileset"
)

func (a *app) generateCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write the SQL and Go code that events.yaml describes",
		Long: `Write the SQL and Go code that events.yaml describes.

Everything is generated and checked before the first file is written. Unchanged
files keep their times, files of ours that are no longer needed are removed, and
files without our header are never touched.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.generate(cmd.Context(), force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "make everything anew, whatever was kept of the last run")
	return cmd
}

func (a *app) generate(ctx context.Context, force bool) error {
	p, err := openProject(a.config)
	if err != nil {
		return err
	}
	defer p.close()
	plan, err := a.plan(ctx, p, force)
	if err != nil {
		return err
	}
	report, err := fileset.Write(ctx, p.root, plan.files, plan.owned)
	if err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return found(p.inTheWay(report.Problems))
	}
	a.logEach("changed", report.Changed)
	a.logEach("added", report.Missing)
	a.logEach("removed", report.Stale)
	a.printf("outboxgen: %d written, %d unchanged, %d removed\n",
		len(report.Changed)+len(report.Missing), report.Unchanged, len(report.Stale))
	for _, note := range plan.notes {
		a.printf("outboxgen: %s\n", note)
	}
	return a.reportClean()
}
