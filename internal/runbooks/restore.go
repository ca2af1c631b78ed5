package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// client runs a client program with input. It has to be the server's own: MariaDB's dump writes
// generated columns down, which MySQL refuses.
func (w *world) client(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: install the package of the server's clients, mariadb-client or mysql-client", err)
	}
	host, port, err := net.SplitHostPort(w.server.Addr())
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"-h", host, "-P", port, "-u", "root"}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", path, err, exit.Stderr)
	}
	return out, err
}

// backup is a dump of the database, or of some of its tables.
func (w *world) backup(ctx context.Context, tables ...string) ([]byte, error) {
	dump, args := "mariadb-dump", []string{"--single-transaction"}
	if w.opts.flavor == dbserver.MySQL { // whose dump can otherwise not be restored beside what it was made of
		dump, args = "mysqldump", append(args, "--set-gtid-purged=OFF")
	}
	args = append(append(args, w.name), tables...)
	fmt.Println("$", dump, quoted(args), ">backup.sql")
	return w.client(ctx, nil, dump, args...)
}

func (w *world) restore(ctx context.Context, dump []byte) error {
	client := map[dbserver.Flavor]string{dbserver.MySQL: "mysql", dbserver.MariaDB: "mariadb"}[w.opts.flavor]
	fmt.Printf("$ %s %s <backup.sql\n", client, w.name)
	_, err := w.client(ctx, dump, client, w.name)
	return err
}

// restoreAll: business, outbox and consumers in one database are as of the backup. The broker isn't.
func restoreAll(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, reported); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "pause", "--reason", "events wait while the backup is made"); err != nil {
		return err
	}
	if err := w.pauseHolds(ctx); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 5); err != nil { // pending in the backup
		return err
	}
	dump, err := w.backup(ctx)
	if err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	if err := w.order(ctx, 3, 5); err != nil { // not in the backup
		return err
	}
	if err := w.awaitCount(ctx, 20, jobs); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 20, reported); err != nil {
		return err
	}
	for _, name := range []string{"api", "relay", "consumers"} {
		if err := w.stop(name); err != nil {
			return err
		}
	}
	before := w.dsn
	if err := w.useDatabase(w.name + "_restored"); err != nil {
		return err
	}
	if err := w.restore(ctx, dump); err != nil {
		return err
	}
	w.lastOrder = 15
	// The backup was made during a pause, and brings it back.
	if err := w.says(ctx, 0, []string{"CLAIMS ARE PAUSED"}, "status"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "schema", "diff"); err != nil {
		return err
	}
	// A consumer in a database of its own, which was not restored, has what the backup lacks.
	time.Sleep(2 * time.Second)
	if err := w.reconcile(ctx, 1, "--consumer-dsn", "sales-report="+before); err != nil {
		return err
	}
	// The orders after the backup had the numbers up to 20.
	if err := w.exec(ctx, "ALTER TABLE orders AUTO_INCREMENT = 1000"); err != nil {
		return err
	}
	for _, name := range []string{"api", "relay", "consumers"} {
		if err := w.start(name, w.bin, name); err != nil {
			return err
		}
	}
	if err := w.order(ctx, 1, 1); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 1000, "SELECT MAX(id) FROM orders"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 0, pending); err != nil {
		return err
	}
	if w.opts.broker == "nats" {
		// The stream had them a moment ago: within its duplicate window it confirms and stores nothing.
		time.Sleep(2 * time.Second)
		if err := w.reconcile(ctx, 1, "--republish", "--yes"); err != nil {
			return err
		}
	}
	return w.mended(ctx)
}

// restoreConsumers: a consumer's effects and dedup rows are as of the backup; what was acknowledged since is
// in no queue.
func restoreConsumers(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, jobs); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, reported); err != nil {
		return err
	}
	dump, err := w.backup(ctx, "consumed_event", "consumer_failure", "parked_event", "consumer_redrive", "consumed_version", "notification_job", "sales_report")
	if err != nil {
		return err
	}
	if err := w.order(ctx, 2, 8); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 18, jobs); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 18, reported); err != nil {
		return err
	}
	if err := w.stop("consumers"); err != nil {
		return err
	}
	if err := w.restore(ctx, dump); err != nil {
		return err
	}
	if err := w.start("consumers", w.bin, "consumers"); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	if err := w.reconcile(ctx, 1); err != nil {
		return err
	}
	if err := w.reconcile(ctx, 1, "--republish", "--yes"); err != nil {
		return err
	}
	return w.mended(ctx)
}
