package doctor

import (
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lint"
)

// dailyReconcile is how long events must be kept for a job that reconciles the day before.
const dailyReconcile = 48 * time.Hour

// kept looks at how long events.yaml has things kept, with what outboxgen lint says of it.
func (l *look) kept() {
	for _, d := range lint.Check(l.cfg.Model) {
		switch d.Rule {
		case "retain-below-broker", "retain-below-kept":
			l.report.Findings.Add(d)
		case "broker-retention-unset":
			d.Severity = diag.SeverityNote
			l.report.Findings.Add(d)
		}
	}
	if keep := l.cfg.Model.Outbox.KeepPublished; keep > 0 && keep < dailyReconcile {
		l.note("kept-below-reconcile", fmt.Sprintf("keep_published is %s: a daily reconcile finds only part of the events of the day before", lint.Hours(keep)),
			"keep them for 48h or more, or reconcile more often")
	}
	l.report.Looked = append(l.report.Looked, "what events.yaml keeps for how long")
}
