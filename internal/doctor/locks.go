package doctor

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
)

// locks finds out by trying whether READ COMMITTED can be had, and SKIP LOCKED does what it
// says. It inserts a row that it rolls back: nobody ever sees it.
func (l *look) locks(ctx context.Context) error {
	first, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := l.readCommitted(ctx, first); err != nil {
		return err
	}
	if !l.outbox {
		return nil
	}
	return l.skipLocked(ctx, first, second)
}

func (l *look) readCommitted(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	var name, isolation string
	if err := conn.QueryRowContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')").Scan(&name, &isolation); err != nil {
		return err
	}
	if isolation != "READ-COMMITTED" {
		l.fail("isolation-not-settable", "the isolation level stays "+isolation+" where READ COMMITTED is asked for: an idle relay would keep writers waiting",
			"connect to the server itself, not through what keeps the level")
	}
	return nil
}

const (
	lockProbe = "SELECT owner FROM {outbox_relay} WHERE owner = ? FOR UPDATE"

	noWait      = 3572 // ER_LOCK_NOWAIT
	lockTimeout = 1205
)

// readOnly are the errors of a server, or a transaction, that is.
var readOnly = []uint16{1290, 1792, 1836}

func (l *look) skipLocked(ctx context.Context, first, second *sql.Conn) error {
	probe := uuid.NewString()
	tx, err := first.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, l.query("INSERT INTO {outbox_relay} (owner, host, pid, started_at, alive_until) VALUES (?, 'outboxgen doctor', 0, '1970-01-01', '1970-01-01')"), probe)
	var answer *mysql.MySQLError
	switch {
	case errors.As(err, &answer) && answer.Number == 1142:
		l.miss("SKIP LOCKED", "this user has no right to try it; a relay tries it before it begins")
		return nil
	case errors.As(err, &answer) && slices.Contains(readOnly, answer.Number):
		l.miss("SKIP LOCKED", "the server is read-only")
		return nil
	case err != nil:
		return err
	}
	for _, s := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION innodb_lock_wait_timeout = 1"} {
		if _, err := second.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	locked, _, err := l.try(ctx, second, lockProbe+" NOWAIT", probe)
	if err != nil {
		return err
	}
	skipped := true
	if locked {
		var waited bool
		_, waited, err = l.try(ctx, second, lockProbe+" SKIP LOCKED", probe)
		skipped = !waited
	}
	if err != nil {
		return err
	}
	if !locked || !skipped {
		l.fail("skip-locked-ignored", "the server takes no notice of FOR UPDATE with NOWAIT or SKIP LOCKED: two relays would claim the same events, or wait for each other",
			"use MySQL 8.0.19 or later, or MariaDB 10.6 or later")
	}
	return nil
}

// try runs a locking read in a transaction, and reports whether it was refused since the row is
// locked, and whether it waited for the lock.
func (l *look) try(ctx context.Context, conn *sql.Conn, query, probe string) (refused, waited bool, err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = tx.Rollback() }()
	var owner string
	err = tx.QueryRowContext(ctx, l.query(query), probe).Scan(&owner)
	var answer *mysql.MySQLError
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, false, nil
	case errors.As(err, &answer) && answer.Number == noWait:
		return true, false, nil
	case errors.As(err, &answer) && answer.Number == lockTimeout: // MariaDB's NOWAIT has no error of its own
		return strings.HasSuffix(query, "NOWAIT"), true, nil
	}
	return false, false, err
}
