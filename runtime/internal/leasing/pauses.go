package leasing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// pauseLook is how old the answer may be to whether claims are paused: so long do they go on.
const pauseLook = time.Second

// Pauses knows whether somebody has paused claims.
type Pauses struct {
	mu   sync.Mutex
	next time.Time // when it is to be asked again
	hold *outbox.Hold
}

// Look returns why nothing may be claimed now, or nil.
func (p *Pauses) Look(ctx context.Context, db *outbox.DB, q Queries) (*outbox.Hold, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.next) {
		return p.hold, nil
	}
	rows, err := q.ReadPause(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("look whether claims are paused (if a table is missing, outboxgen schema diff prints what adds it): %w", err)
	}
	p.hold, p.next = nil, now.Add(pauseLook)
	if len(rows) > 0 {
		p.hold = &outbox.Hold{Operator: rows[0].Operator, Reason: rows[0].Reason, Since: time.UnixMicro(rows[0].PausedUs).UTC()}
	}
	return p.hold, nil
}
