package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// force has a consumer handle events again that it is done with.
func (a *app) force(cmd *cobra.Command, o opsFlags, f selectFlags, args []string, reason string, await time.Duration) error {
	sel, err := f.selection(cmd, args[1:], time.Now())
	switch {
	case err != nil:
		return err
	case len(sel.IDs) == 0:
		return hinted{errors.New("--force takes event ids, and no other selection"), "name each event whose effect may happen a second time"}
	case strings.TrimSpace(reason) == "":
		return errNoReason
	}
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := cmd.Context()
	plan, err := s.PlanForce(ctx, args[0], sel.IDs)
	if err != nil {
		return opsError(err)
	}
	out := struct {
		DryRun bool `json:"dry_run"`
		ops.ForcePlan
		Results []ops.Result `json:"results"`
	}{!f.yes, plan, []ops.Result{}}
	if !f.yes {
		return a.printData(out, func(t *tableWriter) { forceTable(t, plan) })
	}
	since, err := s.LastAudit(ctx, plan.Consumer)
	if err != nil {
		return err
	}
	results, err := s.Force(ctx, plan, reason, f.pace(nil))
	results, err = a.awaitAsked(ctx, s, plan.Consumer, since, results, err, await)
	out.Results = append(out.Results, results...)
	if printErr := a.printData(out, func(t *tableWriter) { resultTable(t, handledAgain(plan.Consumer, await), out.Results) }); err == nil {
		err = printErr
	}
	if err != nil {
		return opsError(err)
	}
	return notAll(out.Results)
}

func forceTable(t *tableWriter, plan ops.ForcePlan) {
	t.row("EVENT", "WAS", "AT")
	for _, e := range plan.Events {
		at := "-"
		if e.Was.At != nil {
			at = shortTime(*e.Was.At)
		}
		t.row(e.EventID, e.Was.State, at)
	}
	t.row(fmt.Sprintf("%s would be handled again by %s: the effect happens a second time. Nothing was changed: --yes does it.", counted(len(plan.Events), "event"), plan.Consumer))
}
