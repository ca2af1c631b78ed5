package ops

import (
	"context"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// Later is how many events of an aggregate overtook one of it.
type Later struct {
	// Published is how many later events of the aggregate are published: a redrive comes behind them.
	Published int `json:"published"`

	// More says that Published is only as far as was counted.
	More bool `json:"more"`

	// Note says why nothing was counted; empty otherwise.
	Note string `json:"note,omitempty"`
}

// Overtaken counts the later events of an event's aggregate that are published, up to 1000.
func (s *Service) Overtaken(ctx context.Context, e Event) (Later, error) {
	var l Later
	switch {
	case !s.lanes():
		l.Note = "not counted: with ordering: none events have no order"
		return l, nil
	case s.model.Outbox.KeepPublished == 0:
		l.Note = "not known: published events are deleted at once (keep_published: none)"
		return l, nil
	}
	query := s.query(fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT e.event_id FROM (
  SELECT event_id FROM {outbox_event} FORCE INDEX ({ix_:outbox_event_claim})
  WHERE status = %d AND lane = CRC32(CONCAT(?, ?)) %% %d AND aggregate_hash = CRC32(CONCAT(?, ?)) AND event_version > ?) k
JOIN {outbox_event} e ON e.event_id = k.event_id
WHERE e.aggregate_type = ? AND e.aggregate_id = ? LIMIT ?) later`, statusPublished, spec.LaneCount))
	typ, id := e.AggregateType, e.AggregateID
	if err := s.outbox.QueryRowContext(ctx, query, typ, id, typ, id, e.AggregateVersion, typ, id, mostSiblings).Scan(&l.Published); err != nil {
		return l, fmt.Errorf("count later events: %w", err)
	}
	l.More = l.Published == mostSiblings
	return l, nil
}
