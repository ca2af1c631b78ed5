package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// pauseTarget is what is paused: outbox_pause.target.
const pauseTarget = "claims"

// Pause says who has paused the claims of all relays.
type Pause struct {
	Operator string    `json:"operator"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
}

// Paused returns the pause that is in force, or nil.
func (s *Service) Paused(ctx context.Context) (*Pause, error) {
	return s.readPause(ctx, s.outbox)
}

func (s *Service) readPause(ctx context.Context, db outbox.DBTX) (*Pause, error) {
	var p Pause
	var us int64
	err := db.QueryRowContext(ctx, s.query("SELECT operator, reason, "+micros("paused_at")+" FROM {outbox_pause} WHERE target = ?"), pauseTarget).
		Scan(&p.Operator, &p.Reason, &us)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look whether claims are paused: %w", err)
	}
	p.Since = time.UnixMicro(us).UTC()
	return &p, nil
}

// PauseClaims stops the claims of all relays, within a second. What they have leased they
// publish and mark. It returns the pause that is in force: somebody else's, when claims
// were paused already, which stays.
func (s *Service) PauseClaims(ctx context.Context, reason string) (p *Pause, already bool, err error) {
	err = change(ctx, s.outbox, func(tx *outbox.Tx) error {
		done, err := tx.ExecContext(ctx, s.query("INSERT INTO {outbox_pause} (target, operator, reason, paused_at) VALUES (?, ?, ?, "+now+") ON DUPLICATE KEY UPDATE target = target"),
			pauseTarget, cut(s.operator, maxOperator), cut(reason, maxDetail))
		if err != nil {
			return fmt.Errorf("pause claims: %w", err)
		}
		n, err := done.RowsAffected()
		if err != nil {
			return err
		}
		if p, err = s.readPause(ctx, tx); err != nil {
			return err
		}
		if already = n == 0; already {
			return nil
		}
		return s.write(ctx, tx, record{operation: opPause, detail: reason})
	})
	return p, already, err
}

// ResumeClaims lets relays claim again. It returns the pause that it ended, or nil.
func (s *Service) ResumeClaims(ctx context.Context) (p *Pause, err error) {
	err = change(ctx, s.outbox, func(tx *outbox.Tx) error {
		if p, err = s.readPause(ctx, tx); err != nil || p == nil {
			return err
		}
		done, err := tx.ExecContext(ctx, s.query("DELETE FROM {outbox_pause} WHERE target = ?"), pauseTarget)
		if err != nil {
			return fmt.Errorf("resume claims: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			p = nil // another one was first
			return err
		}
		return s.write(ctx, tx, record{operation: opResume, detail: "paused by " + p.Operator + ": " + p.Reason})
	})
	return p, err
}
