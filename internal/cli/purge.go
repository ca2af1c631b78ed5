package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) purgeCommand() *cobra.Command {
	var o opsFlags
	var opts ops.PurgeOptions
	var yes, noEvents, noDedup bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Delete what is older than events.yaml keeps it, in one pass",
		Long: `Make one pass of the service's purgers: published events older than keep_published, dedup
rows older than their consumer's retain. It is for services that run no purger, and for
moments when one pass should be now. It deletes in small batches by primary key and makes
no writer wait. Dead and parked events are never deleted.

With --discarded-older and --audit-older it also deletes discarded events, and rows of
the audit, which no purger does. Without --yes nothing is deleted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Discarded < 0 || opts.Audit < 0 || opts.Pause < 0 {
				return hinted{errors.New("a duration is negative"), "write how long they are kept: 720h"}
			}
			opts.Events, opts.Dedup = !noEvents, !noDedup
			return a.purge(cmd, o, opts, yes)
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().BoolVar(&noEvents, "no-events", false, "leave published events")
	cmd.Flags().BoolVar(&noDedup, "no-dedup", false, "leave dedup rows")
	cmd.Flags().DurationVar(&opts.Discarded, "discarded-older", 0, "delete discarded events that were written longer ago, such as 2160h")
	cmd.Flags().DurationVar(&opts.Audit, "audit-older", 0, "delete rows of the audit that are older")
	cmd.Flags().DurationVar(&opts.Pause, "pause", 0, "the wait after each batch, for a server that should have more time for others")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without it the command only shows what it would do")
	return cmd
}

func (a *app) purge(cmd *cobra.Command, o opsFlags, opts ops.PurgeOptions, yes bool) error {
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	if !yes {
		kept := a.kept(s, opts)
		return a.printData(map[string]any{"dry_run": true, "would_delete": kept}, func(t *tableWriter) {
			for _, line := range kept {
				t.row("would delete " + line)
			}
			t.row("Nothing was deleted: --yes does it.")
		})
	}
	out, err := s.Purge(cmd.Context(), opts)
	printErr := a.printData(out, func(t *tableWriter) {
		for _, line := range []struct {
			n    int64
			what string
		}{
			{out.Events, "published events"}, {out.Consumed, "dedup rows"}, {out.Failures, "counts of failed attempts"}, {out.Relays, "rows of old relays"},
			{out.Discarded, "discarded events"}, {out.Audit, "rows of the audit"},
		} {
			if line.n > 0 {
				t.row(fmt.Sprintf("deleted: %d %s", line.n, line.what))
			}
		}
		switch {
		case out.Elsewhere:
			t.row("a purger of the service is at work: what is its was left to it")
		case out == (ops.Purged{}) && err == nil:
			t.row("nothing is old enough to be deleted")
		}
		if out.Deferred > 0 {
			t.row(fmt.Sprintf("%d batches met a lock, and were left for another pass", out.Deferred))
		}
	})
	if err == nil {
		err = printErr
	}
	return opsError(err)
}

// kept says what a purge would delete.
func (a *app) kept(s *ops.Service, opts ops.PurgeOptions) []string {
	out := []string{}
	m := s.Model()
	if opts.Events && m.Outbox.KeepPublished > 0 {
		out = append(out, "published events after "+m.Outbox.KeepPublished.String())
	}
	if opts.Dedup {
		for _, c := range m.Consumers {
			out = append(out, fmt.Sprintf("dedup rows of %s after %s", c.Name.Text, c.Retain))
		}
	}
	for _, old := range []struct {
		age  time.Duration
		what string
	}{{opts.Discarded, "discarded events"}, {opts.Audit, "rows of the audit"}} {
		if old.age > 0 {
			out = append(out, old.what+" after "+old.age.String())
		}
	}
	return out
}
