package cli

import (
	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/lint"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (a *app) lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint",
		Short: "Give advice about names, docs, times, money and personal data in events.yaml",
		Long: `Give advice about an events.yaml that is in order: events without a consumer,
missing docs, names that mislead, money as float64, personal data that isn't
marked, dedup rows that go too early.

Findings are warnings, and end with exit code 1. What is meant to be so is listed
under lint.ignore in events.yaml.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.lint() },
	}
}

func (a *app) lint() error {
	if err := isConfig(a.config); err != nil {
		return err
	}
	events, err := readConfig(a.config)
	if err != nil {
		return err
	}
	model, problems := spec.Parse(a.config, events)
	if len(problems) == 0 {
		problems = lint.Check(model)
	}
	if len(problems) > 0 {
		return found(problems)
	}
	a.printf("outboxgen: nothing to say about %s\n", a.config)
	return a.reportClean()
}
