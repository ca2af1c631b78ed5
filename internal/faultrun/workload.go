package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// workload is events on aggregates, in a random order of the aggregates.
type workload struct {
	db         *outbox.DB
	kind       kind
	seed       uint64
	aggregates int
	events     int // of each aggregate
	writers    int
	rate       int // events a second; 0 for as many as can be

	enough chan struct{} // closed when no more are to be written; nil for never

	written atomic.Int64
}

// businessTable has the aggregates themselves. Who writes an event has locked its row.
const businessTable = "CREATE TABLE business (id BIGINT PRIMARY KEY, version BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB"

func (w *workload) prepare(ctx context.Context) error {
	if _, err := w.db.ExecContext(ctx, businessTable); err != nil {
		return err
	}
	for id := range w.aggregates {
		if _, err := w.db.ExecContext(ctx, "INSERT INTO business (id) VALUES (?)", id+1); err != nil {
			return err
		}
	}
	return nil
}

// write writes the events; any error of the database's ends it.
func (w *workload) write(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int64)
	var writers sync.WaitGroup
	for range w.writers {
		writers.Go(func() {
			for order := range next {
				if err := w.writeOne(ctx, order); err != nil {
					cancel(fmt.Errorf("a writer failed: %w", err))
				}
			}
		})
	}
	w.feed(ctx, next)
	close(next)
	writers.Wait()
	return context.Cause(ctx)
}

func (w *workload) feed(ctx context.Context, next chan<- int64) {
	turns := make([]int64, 0, w.aggregates*w.events)
	for order := range w.aggregates {
		for range w.events {
			turns = append(turns, int64(order+1))
		}
	}
	random := rand.New(rand.NewPCG(w.seed, 0))
	random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	begun := time.Now()
	for i, order := range turns {
		if w.rate > 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(w.rate))))
		}
		select {
		case next <- order:
		case <-w.enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (w *workload) writeOne(ctx context.Context, order int64) error {
	_, err := outbox.InTx(ctx, w.db, func(tx *outbox.Tx) error {
		var version int64
		if err := tx.QueryRowContext(ctx, "SELECT version FROM business WHERE id = ? FOR UPDATE", order).Scan(&version); err != nil {
			return err
		}
		version++
		if _, err := tx.ExecContext(ctx, "UPDATE business SET version = ? WHERE id = ?", version, order); err != nil {
			return err
		}
		return w.kind.write(ctx, tx, w.id(order, version), order, version)
	})
	if err == nil {
		w.written.Add(1)
	}
	return err
}

// id is the same in every run with the same seed, and so are the events' fates.
func (w *workload) id(order, version int64) uuid.UUID {
	var name [24]byte
	binary.BigEndian.PutUint64(name[0:], w.seed)
	binary.BigEndian.PutUint64(name[8:], uint64(order))
	binary.BigEndian.PutUint64(name[16:], uint64(version))
	return uuid.NewSHA1(uuid.NameSpaceOID, name[:])
}

// pending counts the events that wait.
func pending(ctx context.Context, db *outbox.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE status = 0").Scan(&n)
	return n, err
}

// awaitDrained returns when no event waits any longer.
func awaitDrained(ctx context.Context, db *outbox.DB, within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		n, err := pending(ctx, db)
		switch {
		case err != nil:
			return err
		case n == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d events still wait %v after the last was written", n, within)
		}
		time.Sleep(50 * time.Millisecond) // what is waited for is a row
	}
}
