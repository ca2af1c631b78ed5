package outboxtest

import (
	"context"
	"fmt"
	"strings"
)

// prepare makes the tables and finds out what kind of outbox it is.
func (v *verification) prepare(ctx context.Context) error {
	if err := v.makeTables(ctx); err != nil {
		return err
	}
	lanes, err := tablesLike(ctx, v.db, laneTable)
	if err != nil {
		return err
	}
	v.ordered = len(lanes) > 0
	for _, c := range v.cfg.Consumers {
		v.hist.Consumers = append(v.hist.Consumers, c.New(v.db).Name())
	}
	if err := v.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&v.server); err != nil {
		return err
	}
	v.product = "MySQL"
	if strings.Contains(v.server, "MariaDB") {
		v.product = "MariaDB"
	}
	v.threads, err = v.countThreads(ctx)
	return err
}

// makeTables runs Schema, in a database that has to be empty.
func (v *verification) makeTables(ctx context.Context) error {
	tables, err := tablesLike(ctx, v.db, "")
	if err != nil {
		return err
	}
	notEmpty := func(what string) error {
		cfg, err := v.cfg.driver()
		if err != nil {
			return err
		}
		return fmt.Errorf("the database %s is not empty: it has %s; use outboxtest.ScratchDatabase", cfg.DBName, what)
	}
	for _, statement := range v.cfg.Schema {
		if _, err := v.db.ExecContext(ctx, statement); err != nil {
			if len(tables) > 0 {
				return fmt.Errorf("run Schema: %w; %w", err, notEmpty("tables "+firstOf(tables)))
			}
			return fmt.Errorf("run Schema: %w", err)
		}
	}
	events, err := storedEvents(ctx, v.db, Filter{})
	if err != nil {
		return err
	}
	rows, err := v.business(ctx)
	if err != nil {
		return err
	}
	if len(events)+len(rows) > 0 {
		return notEmpty(fmt.Sprintf("%d events and %d business rows", len(events), len(rows)))
	}
	return nil
}

// firstOf lists names, but not too many.
func firstOf(names []string) string {
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
