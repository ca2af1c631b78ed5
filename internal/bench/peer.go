package main

import (
	"context"
	"database/sql"
	"strings"
)

// peerBatch is the batch of the comparison with a peer.
const peerBatch = 1000

// peer compares relays that delete what is published with the loop of a relay
// without leases, which keeps the rows locked while it publishes and deletes them
// in the same transaction. That loop is unsafe: a broker that is slow or away keeps
// a transaction open, and a crash after a confirm, or a connection that is cut,
// publishes a whole batch again, to nobody's knowledge.
func (b *bench) peer(ctx context.Context) error {
	lanes, err := newBox(ctx, b.dsn, aggregateDelete, "peer")
	if err != nil {
		return err
	}
	defer lanes.close()
	rows, err := newBox(ctx, b.dsn, noneDelete, "peer")
	if err != nil {
		return err
	}
	defer rows.close()
	return b.contest(ctx, "peer", "events/s",
		&side{name: aggregateDelete.text + ", relay", run: b.drainSide(lanes, small, crew{relays: 1, batch: peerBatch})},
		&side{name: noneDelete.text + ", relay", run: b.drainSide(rows, small, crew{relays: 1, batch: peerBatch})},
		&side{name: "unsafe peer, one transaction and no lease", run: b.bareSide(rows, small, peerBatch, bareLoop.withoutLease)},
	)
}

// withoutLease selects, publishes and deletes in one transaction.
func (l bareLoop) withoutLease(ctx context.Context) (events int, err error) {
	for {
		n := 0
		err := l.inTx(ctx, func(tx *sql.Tx) error {
			ids, _, err := selectIDs(ctx, tx, 10, string(l.s.selectDueEvents), l.batch)
			if n = len(ids); err != nil || n == 0 {
				return err
			}
			// Here it publishes.
			query := "DELETE FROM outbox_event WHERE event_id IN (" + strings.Repeat(",?", n)[1:] + ")"
			return execAll(ctx, tx, query, ids, n)
		})
		if err != nil || n == 0 {
			return events, err
		}
		events += n
	}
}
