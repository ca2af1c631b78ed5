package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) auditCommand() *cobra.Command {
	var o opsFlags
	var page pageFlags
	var event, operator, operation string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what people did by hand, and what came of it",
		Long: `Show what people did by hand, and what came of it, the newest first: pauses, redrives,
discards. With --consumer-dsn those in the databases of consumers are among them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "event", "operator", "operation", "cursor"); err != nil {
				return err
			}
			if err := page.check(); err != nil {
				return err
			}
			q := ops.AuditQuery{Operator: operator, Operation: operation, Limit: page.limit, Cursor: page.cursor}
			if event != "" {
				id, err := eventID(event)
				if err != nil {
					return err
				}
				q.EventID = id
			}
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				found, err := s.Audit(ctx, q)
				if err != nil {
					return err
				}
				return a.printData(found, func(t *tableWriter) {
					auditRows(t, found.Items)
					endOfPage(t, len(found.Items), "nothing of it is in the audit", found.Note, "cursor", found.Next)
				})
			})
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&event, "event", "", "what was done to an event, by its id")
	cmd.Flags().StringVar(&operator, "operator", "", "what somebody did: user@host")
	cmd.Flags().StringVar(&operation, "operation", "", "one kind of operation, as the list shows it: pause, dead.redrive")
	page.register(cmd.Flags(), "cursor")
	return cmd
}

func auditRows(t *tableWriter, entries []ops.AuditEntry) {
	if len(entries) == 0 {
		return
	}
	now := time.Now()
	t.row("AT", "OPERATION", "OPERATOR", "CONSUMER", "EVENT", "DETAIL")
	for _, e := range entries {
		t.row(when(&e.At, now), e.Operation, e.Operator, orDash(e.Consumer), orDash(e.EventID), shortened(e.Detail, 100))
	}
}
