package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// users of the example's processes, with their roles and what the business needs beside.
var users = []struct {
	name  string
	roles []string
	own   []string
}{
	{"shop_api", []string{"writer"}, []string{
		"SELECT, INSERT, UPDATE ON orders", "SELECT, INSERT ON order_line", "SELECT, UPDATE ON stock",
	}},
	{"shop_relay", []string{"relay", "event-purger"}, nil},
	{"shop_consumers", []string{"consumer", "dedup-purger"}, []string{
		"INSERT ON notification_job", "SELECT, INSERT, UPDATE ON sales_report",
	}},
	{"shop_reader", []string{"reader"}, []string{"SELECT ON orders"}},
	{"shop_operator", []string{"operator"}, nil},
}

// leastPrivilege: the example runs under the users that doctor prints.
func leastPrivilege(ctx context.Context, w *world) error {
	if err := w.program(ctx, w.bin, "setup"); err != nil {
		return err
	}
	dsn := map[string]string{}
	for _, u := range users {
		// Of this runbook's own, since all runbooks share the server.
		name := u.name + "_" + strings.TrimPrefix(w.name, "shop_")
		if _, err := w.db.ExecContext(ctx, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'secret'", name)); err != nil {
			return err
		}
		for _, role := range u.roles {
			grants, err := w.outboxgen(ctx, 0, "doctor", "--grants", "--dsn", w.dsn, "--role", role, "--user", name)
			if err != nil {
				return err
			}
			if _, err := w.db.ExecContext(ctx, grants); err != nil {
				return fmt.Errorf("the grants of %s: %w", role, err)
			}
		}
		for _, own := range u.own {
			if err := w.exec(ctx, fmt.Sprintf("GRANT %s TO '%s'@'%%'", own, name)); err != nil {
				return err
			}
		}
		cfg, err := mysql.ParseDSN(w.dsn)
		if err != nil {
			return err
		}
		cfg.User, cfg.Passwd = name, "secret"
		dsn[u.name] = cfg.FormatDSN()
	}
	for name, user := range map[string]string{"api": "shop_api", "relay": "shop_relay", "consumers": "shop_consumers"} {
		if err := w.start(name, w.bin, name, "ORDERS_DSN="+dsn[user]); err != nil {
			return err
		}
	}
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.order(ctx, 4, 2); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 2, parked); err != nil {
		return err
	}
	if err := w.exec(ctx, "INSERT INTO notification_channel (tenant_id, channel) VALUES (4, 'mail')"); err != nil {
		return err
	}
	for _, c := range []struct {
		user string
		code int
		args []string
	}{
		{"shop_reader", 0, []string{"status"}},
		{"shop_reader", 0, []string{"parked", "list"}},
		{"shop_reader", 2, []string{"parked", "redrive", "notification-planner", "--all", "--yes"}},
		{"shop_operator", 0, []string{"parked", "redrive", "notification-planner", "--all", "--yes"}},
		{"shop_operator", 0, []string{"pause", "--reason", "may the operator?"}},
		{"shop_operator", 0, []string{"resume"}},
		{"shop_relay", 0, []string{"doctor", "--role", "relay"}},
		{"shop_reader", 0, []string{"reconcile", "--publish-delay", "30s", "--apply-delay", "30s"}},
	} {
		if _, err := w.outboxgenAs(ctx, dsn[c.user], c.code, c.args...); err != nil {
			return err
		}
	}
	return w.mended(ctx)
}
