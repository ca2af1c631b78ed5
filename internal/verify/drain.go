package verify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// effectBound is how long the consequences of a fault are waited for when all else is done.
const effectBound = 15 * time.Second

// drain waits until all requests are done, all events published and handled, and what the
// fault has to cause was seen. What doesn't come in time the judgement will tell.
func (s *stage) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	writer := s.writer()
	if err := writer.await(ctx, "done", writer.written, drainBound); err != nil {
		return err
	}
	var effects time.Time
	for {
		left, err := s.handled(ctx)
		if err == nil && left == "" {
			if effects.IsZero() {
				effects = time.Now()
			}
			h, err := s.collect(ctx)
			if err == nil && len(s.inconclusive(h)) == 0 || time.Since(effects) > effectBound {
				return nil
			}
		}
		if pause(ctx) != nil {
			return errors.Join(fmt.Errorf("not everything was done %v after the fault: %s", drainBound, left), err)
		}
	}
}

func (s *stage) unpublished(ctx context.Context) (n int, err error) {
	err = s.db.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE status = 0").Scan(&n)
	return n, err
}

// handled says what is left to do: everything has to be published, and handled as often as the
// broker has confirmed it and has it. What a dying relay's connection still had on its way may be
// in one queue of RabbitMQ's and not in another; and NATS confirms a repeat that it drops.
func (s *stage) handled(ctx context.Context) (left string, err error) {
	if n, err := s.unpublished(ctx); err != nil || n > 0 {
		return fmt.Sprintf("%d events wait", n), err
	}
	if idle, err := s.broker.idle(ctx, s.place); err != nil || !idle {
		return "the broker has messages that wait", err
	}
	messages, err := s.broker.messages(ctx, s.place)
	if err != nil {
		return "the broker can't be read", err
	}
	stored, count := map[uuid.UUID]int{}, map[uuid.UUID]int{}
	for _, m := range messages {
		stored[m.EventID]++
	}
	published, deliveries := s.carried()
	delivered := map[uuid.UUID]bool{}
	for _, d := range deliveries {
		delivered[d.EventID] = true
	}
	for _, r := range s.requests {
		if !r.Refused && stored[r.EventID] == 0 && !delivered[r.EventID] {
			return fmt.Sprintf("the broker doesn't have event %s", r.EventID), nil
		}
	}
	for _, p := range published {
		if p.Confirmed && count[p.EventID] < stored[p.EventID] {
			count[p.EventID]++
		}
	}
	for _, d := range deliveries {
		if d.Result != resultError {
			count[d.EventID]--
		}
	}
	for id, n := range count {
		if n > 0 {
			return fmt.Sprintf("event %s was confirmed %d times more than it was handled", id, n), nil
		}
	}
	return "", nil
}

// inconclusive says what the experiment was to show and did not.
func (s *stage) inconclusive(h history.History) []string {
	missing := history.Inconclusive(h, s.plan())
	want, ok := map[string]string{record.BeforeCommit: "", record.BeforeClaim: history.StatusPending}[s.Injection]
	if !ok {
		return missing
	}
	if state, asked := stateMeanwhile(h, s.touched(h)); !asked || state != want {
		missing = append(missing, fmt.Sprintf("at the fault the event's state was %q, want %q", state, want))
	}
	return missing
}

func (s *stage) describe() string { return fmt.Sprintf("%s seed %d", s.ident(), s.Seed) }
