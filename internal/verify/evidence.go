package verify

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// touched is the event that the victim had last in its hands when it came to its point. On the
// wire nobody tells of that moment: there it is the first that had an unusual end.
func (s *stage) touched(h history.History) uuid.UUID {
	victim := s.role() + "-1"
	var last uuid.UUID
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.actor != victim {
			continue
		}
		switch e.Kind {
		case lineTry, lineHanded, lineDelivered:
			last = e.Events[0]
		case lineHit:
			return last
		}
	}
	for _, r := range h.Requests {
		if r.Outcome == history.Unknown {
			return r.EventID
		}
	}
	for _, d := range h.Deliveries {
		if d.Result == resultError {
			return d.EventID
		}
	}
	return uuid.Nil
}

// subject is the event that an experiment is about: the one that was touched, else the first.
func (s *stage) subject(h history.History) record.Event {
	id := s.touched(h)
	for _, r := range s.requests {
		if r.EventID == id || id == uuid.Nil {
			typ := orderevents.EventTypeOrderAccepted
			if r.Version == 2 {
				typ = orderevents.EventTypeOrderCancelled
			}
			return record.Event{
				RequestID: r.ID, EventID: r.EventID, Aggregate: aggregate("order", fmt.Sprint(r.Order)), Type: typ, Version: r.Version,
			}
		}
	}
	return record.Event{}
}

// stateMeanwhile is what a lookup of an event said when the fault had begun.
func stateMeanwhile(h history.History, id uuid.UUID) (state string, asked bool) {
	for _, a := range h.Answers {
		if a.EventID == id && !a.Final {
			return a.State, true
		}
	}
	return "", false
}

// observed says in numbers what a run has shown.
func observed(h history.History) []string {
	c := record.CountsOf(h)
	unknown, found := 0, 0
	for _, r := range h.Requests {
		if r.Outcome == history.Unknown {
			unknown++
			if r.Reconciled != nil && *r.Reconciled {
				found++
			}
		}
	}
	failed := 0
	for _, d := range h.Deliveries {
		if d.Result == resultError {
			failed++
		}
	}
	return []string{
		fmt.Sprintf("%d requests committed; %d tries without a known end, of which %d were found committed", c.CommittedRequests, unknown, found),
		fmt.Sprintf("%d events published as %d messages; %d marks refused", c.Events[history.StatusPublished], c.BrokerMessages, c.LostLeases),
		fmt.Sprintf("%d deliveries, %d of them absorbed as repeats, %d without success; %d effects", c.HandleAttempts, c.Duplicates, failed, c.Effects),
	}
}
