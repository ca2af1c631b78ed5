package ops

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// DeadQuery asks for dead events, by their ids. Zero values leave a condition out.
type DeadQuery struct {
	Type          string
	Kind          string // of the last error
	AggregateType string
	AggregateID   string // with AggregateType
	Before, After time.Time
	Discarded     bool   // discarded ones in place of dead ones
	Cursor        string // Next of the page before
	Limit         int    // default 50, at most 1000
}

// DeadEvent is an event that no relay tries any more.
type DeadEvent = PlannedEvent

// Dead returns dead events, the oldest first.
func (s *Service) Dead(ctx context.Context, q DeadQuery) (Page[DeadEvent], error) {
	page := Page[DeadEvent]{Items: []DeadEvent{}}
	if q.Cursor != "" {
		if _, err := uuid.Parse(q.Cursor); err != nil {
			return page, badCursor(q.Cursor)
		}
	}
	limit := pageLimit(q.Limit)
	sel := Selection{
		Type: q.Type, Kind: q.Kind, AggregateType: q.AggregateType, AggregateID: q.AggregateID, Before: q.Before, After: q.After,
		Discarded: q.Discarded, Limit: limit + 1, behind: q.Cursor,
	}
	if err := s.readDead(ctx, s.outbox, sel, nil, "", func(e PlannedEvent) { page.Items = append(page.Items, e) }); err != nil {
		return page, err
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].EventID.String()
	}
	return page, nil
}

// ParkedQuery asks for parked events. Zero values leave a condition out.
type ParkedQuery struct {
	Consumer      string // of all consumers when empty: then there is one page, with the first of each
	Type          string
	Kind          string
	AggregateType string
	AggregateID   string // with AggregateType
	Before, After time.Time
	Cursor        string // Next of the page before
	Limit         int    // default 50, at most 1000
}

// ParkedEvent is an event that a consumer gave up on.
type ParkedEvent struct {
	Consumer string `json:"consumer"`
	PlannedEvent
}

// Parked returns parked events, in the order in which they were parked.
func (s *Service) Parked(ctx context.Context, q ParkedQuery) (Page[ParkedEvent], error) {
	page := Page[ParkedEvent]{Items: []ParkedEvent{}}
	consumers := []string{q.Consumer}
	if q.Consumer == "" {
		consumers = nil
		for _, c := range s.model.Consumers {
			consumers = append(consumers, c.Name.Text)
		}
	} else if s.consumer(q.Consumer) == nil {
		return page, s.noConsumer(q.Consumer)
	}
	limit := pageLimit(q.Limit)
	sel := Selection{
		Type: q.Type, Kind: q.Kind, AggregateType: q.AggregateType, AggregateID: q.AggregateID, Before: q.Before, After: q.After,
		Limit: limit + 1, behind: q.Cursor,
	}
	if q.Cursor != "" {
		if _, err := strconv.ParseInt(q.Cursor, 10, 64); err != nil || q.Consumer == "" {
			return page, badCursor(q.Cursor)
		}
	}
	for _, name := range consumers {
		before := len(page.Items)
		err := s.readParked(ctx, s.inbox(name), name, sel, nil, "", func(e PlannedEvent) { page.Items = append(page.Items, ParkedEvent{name, e}) })
		if err != nil {
			return page, fmt.Errorf("read parked events: %w", err)
		}
		if len(page.Items)-before <= limit {
			continue
		}
		page.Items = page.Items[:before+limit]
		if q.Consumer == "" {
			page.Note = "there are more: ask for one consumer's"
		} else {
			page.Next = strconv.FormatInt(page.Items[limit-1].place, 10)
		}
	}
	if q.Consumer == "" {
		slices.SortStableFunc(page.Items, func(a, b ParkedEvent) int { return a.FailedAt.Compare(b.FailedAt) })
	}
	return page, nil
}
