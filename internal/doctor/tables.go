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
	have, _, _, err := l.held(ctx)
	if err != nil {
		return err
	}
	for _, name := range l.needed(layouts.Want) {
		if !have.Sees(name) {
			l.miss("the tables", "this user sees only parts of them; a reader, of --grants, sees all")
			return nil
		}
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
		if table, _, _ := strings.Cut(d.Message, ": "); !slices.Contains(l.needed(layouts.Want), table) && !slices.Contains(l.needed(layouts.Other), table) {
			continue // it is elsewhere
		}
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

// needed are the tables and views that belong here.
func (l *look) needed(s ddl.Schema) []string {
	var names []string
	for _, t := range s.Tables {
		if l.outbox || slices.ContainsFunc(ofConsumers, func(name string) bool { return l.table(name) == t.Name }) {
			names = append(names, t.Name)
		}
	}
	for _, v := range s.Views {
		if l.outbox {
			names = append(names, v.Name)
		}
	}
	return names
}
