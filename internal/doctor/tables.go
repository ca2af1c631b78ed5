package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// ofConsumers are the tables of a consumer.
var ofConsumers = []string{"consumed_event", "consumer_failure", "parked_event", "consumed_version", "consumer_redrive", "outbox_audit", "outbox_task"}

// tables compares them with those that are needed.
func (l *look) tables(ctx context.Context) error {
	layouts, problems := sqlgen.Tables(l.cfg.Model)
	if len(problems) > 0 {
		return problems
	}
	if !l.outbox {
		keep := func(s ddl.Schema) ddl.Schema {
			return ddl.Schema{Tables: slices.DeleteFunc(s.Tables, func(t ddl.Table) bool {
				return !slices.ContainsFunc(ofConsumers, func(name string) bool { return l.table(name) == t.Name })
			})}
		}
		layouts = sqlgen.Layouts{Want: keep(layouts.Want), Other: keep(layouts.Other)}
	}
	live, err := schemadiff.Read(ctx, l.db, schemadiff.Names(layouts))
	var plan schemadiff.Plan
	if err == nil {
		plan, err = schemadiff.Diff(layouts, live, schemadiff.Options{})
	}
	var refused *schemadiff.RefusedError
	if errors.As(err, &refused) {
		l.miss("the tables", refused.Error()+": "+refused.Hint)
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range plan.Findings {
		if strings.HasPrefix(d.Rule, "extra-") {
			d.Severity = diag.SeverityWarning
		}
		d.Message = l.where + d.Message
		if d.Hint != "" {
			d.Hint += "; "
		}
		d.Hint += "outboxgen schema diff prints the statements"
		l.report.Findings.Add(d)
	}
	return nil
}
