package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

func (a *app) pauseCommand() *cobra.Command {
	var o opsFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "pause --reason TEXT",
		Short: "Stop the relays' claims; events go on being written, and wait",
		Long: `Stop the claims of all relays, within a second or two, until outboxgen resume. What they
have leased they publish and mark; status shows the leases that are left. Nothing is
lost: events are written as before, and wait in the outbox. Consumers go on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return hinted{errNoReason.error, "say why, for those who find it paused"}
			}
			s, closeAll, err := a.service(cmd, o)
			if err != nil {
				return err
			}
			defer closeAll()
			p, already, err := s.PauseClaims(cmd.Context(), reason)
			if err != nil {
				return opsError(err)
			}
			return a.printPause(struct {
				Paused  bool       `json:"paused"`
				Already bool       `json:"already"`
				Pause   *ops.Pause `json:"pause"`
			}{true, already, p}, pauseText(p, already))
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who find it paused, and for the audit")
	return cmd
}

func pauseText(p *ops.Pause, already bool) string {
	if already {
		return fmt.Sprintf("claims were paused already: by %s at %s: %s", p.Operator, shortTime(p.Since), p.Reason)
	}
	return "claims are paused; outboxgen resume ends it"
}

func (a *app) resumeCommand() *cobra.Command {
	var o opsFlags
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Let relays claim again after a pause",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, closeAll, err := a.service(cmd, o)
			if err != nil {
				return err
			}
			defer closeAll()
			p, err := s.ResumeClaims(cmd.Context())
			if err != nil {
				return opsError(err)
			}
			text := "claims were not paused"
			if p != nil {
				text = fmt.Sprintf("claims go on; they were paused by %s at %s: %s", p.Operator, shortTime(p.Since), p.Reason)
			}
			return a.printPause(struct {
				Paused bool       `json:"paused"`
				Ended  *ops.Pause `json:"ended"`
			}{false, p}, text)
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (a *app) printPause(data any, text string) error {
	return a.printData(data, func(t *tableWriter) { t.row(text) })
}
