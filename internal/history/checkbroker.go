package history

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// The statuses of an outbox row.
const (
	StatusPending    = "PENDING"
	StatusPublishing = "PUBLISHING"
	StatusPublished  = "PUBLISHED"
	StatusDead       = "DEAD"
)

// published is I2. The history is taken when the deadline after healing is over, so
// that what isn't published by then is late. What a consumer was handed the broker had,
// even if the queue that the messages are counted in has lost its binding in a crash.
func (j *judge) published() {
	if !j.observed("outbox rows", j.Events != nil) || !j.observed("the broker's messages", j.Messages != nil) {
		return
	}
	stored := make(map[uuid.UUID]bool, len(j.Messages))
	for _, m := range j.Messages {
		stored[m.EventID] = true
	}
	delivered := make(map[uuid.UUID]bool, len(j.Deliveries))
	for _, d := range j.Deliveries {
		delivered[d.EventID] = true
	}
	byStatus, unseen := make(map[string]int), 0
	for _, e := range j.Events {
		byStatus[e.Status]++
		switch {
		case e.Rejected && e.Status == StatusDead:
		case e.Status != StatusPublished:
			j.violate("event %s is %s after %d attempts, %v after healing", e.ID, e.Status, e.Attempts, j.Deadline)
		case !stored[e.ID] && delivered[e.ID]:
			unseen++
		case !stored[e.ID]:
			j.violate("event %s is PUBLISHED, and the broker doesn't have it", e.ID)
		}
	}
	j.count(len(j.Messages), "messages at the broker")
	if unseen > 0 {
		j.count(unseen, "events known to be at the broker by their deliveries alone")
	}
	for _, status := range []string{StatusPublished, StatusDead, StatusPublishing, StatusPending} {
		j.count(byStatus[status], "events "+status)
	}
}

// committed is I3.
func (j *judge) committed() {
	if !j.observed("outbox rows", j.Events != nil) || !j.observed("the broker's messages", j.Messages != nil) {
		return
	}
	j.count(len(j.Messages), "messages at the broker")
	for _, m := range j.Messages {
		if _, ok := j.events[m.EventID]; !ok {
			j.violate("the broker has a message of event %s, which is not committed", m.EventID)
		}
	}
	for _, p := range j.Published {
		if _, ok := j.events[p.EventID]; !ok {
			j.violate("%s published event %s, which is not committed", p.Relay, p.EventID)
		}
	}
}

// marked is I6.
func (j *judge) marked() {
	if !j.observed("marks", j.Marks != nil) {
		return
	}
	refused := 0
	for _, m := range j.Marks {
		terminal := m.Before == StatusPublished || m.Before == StatusDead
		switch {
		case m.Changed && !m.Owned:
			j.violate("%s changed event %s (%s) under a lease that was no longer its own", m.Relay, m.EventID, m.Kind)
		case m.Changed && terminal && m.After != m.Before:
			j.violate("%s changed event %s from %s to %s", m.Relay, m.EventID, m.Before, m.After)
		case m.Changed && m.After == StatusPublished && j.regressed(m.EventID):
			j.violate("event %s was marked PUBLISHED and is %s in the end", m.EventID, j.events[m.EventID].Status)
		case !m.Changed && !m.Owned:
			refused++
		}
	}
	j.count(len(j.Marks), "marks")
	j.count(refused, "of them refused, since the lease was lost")
}

// regressed reports whether a row is there that isn't PUBLISHED; one that was purged is none.
func (j *judge) regressed(id uuid.UUID) bool {
	e, ok := j.events[id]
	return ok && e.Status != StatusPublished
}

// repeated is I7. What the broker certainly didn't take is no publish.
func (j *judge) repeated() {
	if !j.observed("publishes", j.Published != nil) {
		return
	}
	handed := make(map[uuid.UUID]int)
	for _, p := range j.Published {
		if p.Confirmed || p.Kind == "unknown" {
			handed[p.EventID]++
		}
	}
	stored := make(map[uuid.UUID]int)
	for _, m := range j.Messages {
		stored[m.EventID]++
	}
	repeats := 0
	for _, id := range sortedIDs(handed, stored) {
		n := max(handed[id], stored[id])
		repeats += n - 1
		if most := 1 + j.touching(id); n > most {
			j.violate("event %s was published %d times, with %d faults that touched it", id, n, most-1)
		}
	}
	j.count(len(handed), "events published")
	j.count(repeats, "repeats")
	j.count(len(j.Faults), "faults")
}

// hasSeries reports whether some aggregate has more than one event at the broker.
func (j *judge) hasSeries() bool {
	first := make(map[string]uuid.UUID)
	for _, m := range j.Messages {
		if id, seen := first[m.Aggregate]; seen && id != m.EventID {
			return true
		}
		first[m.Aggregate] = m.EventID
	}
	return false
}

// ordered is I9. A repeat may come behind newer events, so that only the first message of
// an event counts; an event that the broker refused may be redriven later.
func (j *judge) ordered() {
	if !j.observed("a promise of order", j.Ordered) || !j.observed("the broker's messages", j.Messages != nil) ||
		!j.observed("an aggregate with two events", j.hasSeries()) {
		return
	}
	seen := make(map[uuid.UUID]bool)
	last := make(map[string]Message)
	for _, m := range j.Messages {
		if seen[m.EventID] || j.events[m.EventID].Rejected {
			continue
		}
		seen[m.EventID] = true
		if before, ok := last[m.Aggregate]; ok && j.compare(before, m) > 0 {
			j.violate("aggregate %s: event %s of version %d is published behind event %s of version %d",
				m.Aggregate, m.EventID, m.Version, before.EventID, before.Version)
			continue
		}
		last[m.Aggregate] = m
	}
	j.count(len(seen), "events")
	j.count(len(last), "aggregates")
}

// compare gives the places of two events in their aggregate: by the time from which they
// are due, then by version.
func (j *judge) compare(a, b Message) int {
	return cmp.Or(
		j.events[a.EventID].AvailableAt.Compare(j.events[b.EventID].AvailableAt),
		cmp.Compare(a.Version, b.Version),
	)
}

// prompt is I10.
func (j *judge) prompt() {
	if !j.observed("delays beside a poisoned event", j.Delays != nil) {
		return
	}
	for _, d := range j.Delays {
		if d.Took > d.Bound {
			j.violate("event %s took %v, with a bound of %v", d.EventID, d.Took, d.Bound)
		}
	}
	j.count(len(j.Delays), "events beside a poisoned one")
}

// sortedIDs are the keys of maps, once each and in order.
func sortedIDs(maps ...map[uuid.UUID]int) []uuid.UUID {
	var ids []uuid.UUID
	for _, m := range maps {
		for id := range m {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(ids)
}
