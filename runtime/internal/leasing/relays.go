package leasing

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Isolation is what every transaction of a store runs at. At REPEATABLE READ,
// MySQL's default, the claim of an empty outbox takes a gap lock that makes
// every writer wait.
var Isolation = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// Relays keeps the rows of this process's runs in outbox_relay, which tell
// people where the owner of a lease runs, and relays how many they are.
type Relays struct {
	mu    sync.Mutex
	renew map[uuid.UUID]time.Time // when an owner's row is to be renewed
}

// KeepAlive writes the owner's row at its first call, and then twice a lease,
// and reports whether it did. A row counts as alive for a lease.
func (r *Relays) KeepAlive(ctx context.Context, db *outbox.DB, q Queries, o outbox.Owner, lease time.Duration) (bool, error) {
	now := time.Now()
	r.mu.Lock()
	due, known := r.renew[o.ID]
	r.mu.Unlock()
	if known && now.Before(due) {
		return false, nil
	}
	err := q.KeepRelayAlive(ctx, db, KeepRelayAliveParams{
		Owner: o.ID.String(), Host: o.Host, Pid: int64(o.PID), AliveUs: lease.Microseconds(),
	})
	if err != nil {
		return false, fmt.Errorf("register relay: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renew == nil {
		r.renew = map[uuid.UUID]time.Time{}
	}
	r.renew[o.ID] = now.Add(lease / 2)
	return true, nil
}

// End records that an owner's run has ended.
func (r *Relays) End(ctx context.Context, db *outbox.DB, q Queries, o outbox.Owner) error {
	r.mu.Lock()
	delete(r.renew, o.ID)
	r.mu.Unlock()
	if err := q.EndRelay(ctx, db, EndRelayParams{Owner: o.ID.String()}); err != nil {
		return fmt.Errorf("end relay: %w", err)
	}
	return nil
}

// Backlog asks what waits in the outbox.
func Backlog(ctx context.Context, db *outbox.DB, q Queries) (outbox.Backlog, error) {
	w, err := q.CountWaiting(ctx, db)
	if err != nil {
		return outbox.Backlog{}, fmt.Errorf("count waiting events: %w", err)
	}
	dead, err := q.CountDead(ctx, db)
	if err != nil {
		return outbox.Backlog{}, fmt.Errorf("count dead events: %w", err)
	}
	return outbox.Backlog{
		Dead:      int(dead),
		Waiting:   int(w.Waiting),
		OldestDue: max(0, time.Duration(w.OldestUs)*time.Microsecond),
	}, nil
}
