package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// probeTime is how long a probe's row counts as a live relay, should it stay.
const probeTime = time.Second

// Check finds out by trying, not from a version, whether a database does what a
// store relies on. It returns an *outbox.UnfitError when it doesn't, and another
// error when it can't be asked. It takes two connections at once; of a pool of one
// only the settings are checked.
func Check(ctx context.Context, db *outbox.DB, q Queries) error {
	if err := checkBinlog(ctx, db); err != nil {
		return err
	}
	probe := outbox.NewEventID().String()
	keep := func(alive time.Duration) error {
		return q.KeepRelayAlive(ctx, db, KeepRelayAliveParams{Owner: probe, Host: "a check", AliveUs: alive.Microseconds()})
	}
	if err := keep(probeTime); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	defer func() { _ = q.DeleteRelay(context.WithoutCancel(ctx), db, DeleteRelayParams{Owner: probe}) }()
	if db.Stats().MaxOpenConnections == 1 {
		return nil // the rest takes two at once
	}
	_, err := outbox.InTxWith(fault.In(ctx, fault.Other), db, Isolation, func(tx *outbox.Tx) error {
		before, err := q.RelayAliveUntil(ctx, tx, RelayAliveUntilParams{Owner: probe})
		if err != nil {
			return err
		}
		if err := keep(2 * probeTime); err != nil {
			return err
		}
		after, err := q.RelayAliveUntil(ctx, tx, RelayAliveUntilParams{Owner: probe})
		if err != nil {
			return err
		}
		if after == before {
			return &outbox.UnfitError{Reason: "a transaction at READ COMMITTED does not see what others commit: " +
				"the isolation level can't be set through this connection; connect to the server itself"}
		}
		if locked, err := q.LockRelay(ctx, tx, LockRelayParams{Owner: probe}); err != nil {
			return err
		} else if len(locked) != 1 {
			return errors.New("the probe's row is locked by another transaction")
		}
		return checkSkipLocked(ctx, db, q, probe)
	})
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	return nil
}

// checkSkipLocked asks, beside the transaction that has locked the probe's row,
// whether another one passes it over.
func checkSkipLocked(ctx context.Context, db *outbox.DB, q Queries, probe string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a server that waits for the lock fails too
	defer cancel()
	_, err := outbox.InTxWith(fault.In(ctx, fault.Other), db, Isolation, func(tx *outbox.Tx) error {
		locked, err := q.LockRelay(ctx, tx, LockRelayParams{Owner: probe})
		if err == nil && len(locked) > 0 {
			err = &outbox.UnfitError{Reason: "it parses SKIP LOCKED and ignores it: two relays would claim the same events"}
		}
		return err
	})
	return err
}

// checkBinlog refuses a server on which a claim fails: at READ COMMITTED, InnoDB
// writes no statement-based log (error 1665).
func checkBinlog(ctx context.Context, db *outbox.DB) error {
	var on bool
	var format string
	err := db.QueryRowContext(ctx, "SELECT @@log_bin, @@session.binlog_format").Scan(&on, &format)
	switch {
	case err != nil && db.Classify(err).Code != 0:
		return nil // this server has no such variable
	case err != nil:
		return fmt.Errorf("check the database: %w", err)
	case on && format == "STATEMENT":
		return &outbox.UnfitError{Reason: "binlog_format is STATEMENT, which READ COMMITTED can't be used with; set it to ROW"}
	}
	return nil
}
