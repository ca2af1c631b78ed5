package verify

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// collect makes a history of what the children told, and of what database and broker hold.
func (s *stage) collect(ctx context.Context) (history.History, error) {
	h := history.History{
		Consumers: []string{consumerName}, Ordered: true, Deadline: 2*lease + retryMax, Canaries: []string{},
	}
	s.mu.Lock()
	h.Faults, h.Answers = slices.Clone(s.faults), slices.Clone(s.answers)
	entries := slices.Clone(s.entries)
	s.mu.Unlock()
	for i := range h.Faults {
		h.Faults[i].Events = s.reach(entries)
	}
	h.Faults = append(h.Faults, unplanned(entries)...)
	h.Requests, h.Written = requestsOf(entries)
	h.Published = s.published(entries)
	h.Deliveries, h.Acks = deliveriesOf(entries)
	for _, p := range s.procs {
		if strings.Contains(p.log.String(), s.canary()) {
			h.Canaries = append(h.Canaries, "the log of "+p.name)
		}
	}
	var err error
	if h.Messages, err = s.broker.messages(ctx, s.place); err != nil {
		return h, fmt.Errorf("read the broker: %w", err)
	}
	if h.Messages == nil {
		h.Messages = []history.Message{}
	}
	return h, s.readDatabase(ctx, &h, entries)
}

// reach are the events that the fault may have published again: none when a writer or a
// consumer failed, those that the victim had when it was a relay, any when a peer died.
func (s *stage) reach(entries []entry) []uuid.UUID {
	if s.Outcome == record.OutcomePeerKilled {
		return nil
	}
	reach := []uuid.UUID{}
	for _, e := range entries {
		if e.Kind == lineHanded && s.role() == roleRelay && e.actor == roleRelay+"-1" {
			reach = append(reach, e.Events...)
		}
	}
	return reach
}

// unplanned are faults that nobody brought about, by the relays' own word: on a machine that
// stands still for a second marks come too late, confirms are missed and leases end. A lease
// that is lost before its time is none.
func unplanned(entries []entry) []history.Fault {
	handed := map[string]map[uuid.UUID]time.Time{} // by relay, the last time
	open := map[call][]uuid.UUID{}
	var faults []history.Fault
	for _, e := range entries {
		late := []uuid.UUID{}
		switch e.Kind {
		case lineHanded:
			open[call{e.actor, e.N}] = e.Events
			if handed[e.actor] == nil {
				handed[e.actor] = map[uuid.UUID]time.Time{}
			}
			for _, id := range e.Events {
				handed[e.actor][id] = e.at
			}
			continue
		case lineAnswered:
			for i, id := range open[call{e.actor, e.N}] {
				if e.Results[i] == outbox.FailureUnknown.String() {
					late = append(late, id)
				}
			}
		case lineTrouble:
			late = slices.Collect(maps.Keys(handed[e.actor]))
		case lineLost:
			for _, id := range e.Events {
				if e.at.Sub(handed[e.actor][id]) >= lease/2 { // it was claimed before
					late = append(late, id)
				}
			}
		}
		if len(late) > 0 {
			faults = append(faults, history.Fault{Point: "relay", Outcome: "late", Events: late})
		}
	}
	return faults
}

func requestsOf(entries []entry) (requests []history.Request, written []history.Written) {
	open := map[string]int{} // requests by id: the last try
	for _, e := range entries {
		switch e.Kind {
		case lineTry:
			open[e.Request] = len(requests)
			requests = append(requests, history.Request{ID: e.Request, EventID: e.Events[0], Outcome: history.Unknown})
		case lineTold:
			requests[open[e.Request]].Outcome = history.Outcome(e.Result)
		case lineReconciled:
			if i, ok := open[e.Request]; ok && requests[i].Outcome == history.Unknown {
				requests[i].Reconciled = &e.Yes
			}
		case lineWrite:
			written = append(written, history.Written{
				EventID: e.Events[0], Type: e.Type, Aggregate: e.Aggregate, Version: e.Version, Payload: e.Payload,
			})
		}
	}
	return requests, written
}

// call is a call of an actor's, by its number.
type call struct {
	actor string
	n     int
}

// published are the calls of publishers. One that wasn't answered has an unknown end.
func (s *stage) published(entries []entry) []history.Publish {
	place := map[uuid.UUID]request{}
	for _, r := range s.requests {
		place[r.EventID] = r
	}
	open := map[call][]uuid.UUID{}
	all := []history.Publish{}
	add := func(actor string, events []uuid.UUID, results []string) {
		for i, id := range events {
			r := place[id]
			p := history.Publish{EventID: id, Aggregate: aggregate("order", fmt.Sprint(r.Order)), Version: r.Version, Relay: actor, Kind: "unknown"}
			if results != nil {
				p.Confirmed, p.Kind = results[i] == confirmed, results[i]
			}
			if p.Confirmed {
				p.Kind = ""
			}
			all = append(all, p)
		}
	}
	for _, e := range entries {
		switch key := (call{e.actor, e.N}); e.Kind {
		case lineHanded:
			open[key] = e.Events
		case lineAnswered:
			add(e.actor, open[key], e.Results)
			delete(open, key)
		}
	}
	for key, events := range open {
		add(key.actor, events, nil)
	}
	return all
}

// resultError is that of a delivery that wasn't handled, or whose consumer died.
const resultError = "error"

// carried is what was published and handled so far.
func (s *stage) carried() ([]history.Publish, []history.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deliveries, _ := deliveriesOf(s.entries)
	return s.published(s.entries), deliveries
}

// deliveriesOf tells also what may have been acknowledged: the subscriber is told so when
// the handler has returned.
func deliveriesOf(entries []entry) (deliveries []history.Delivery, acks []history.Ack) {
	deliveries, acks = []history.Delivery{}, []history.Ack{}
	open := map[call]int{}
	for _, e := range entries {
		switch key := (call{e.actor, e.N}); e.Kind {
		case lineDelivered:
			open[key] = len(deliveries)
			deliveries = append(deliveries, history.Delivery{EventID: e.Events[0], Consumer: consumerName, Result: resultError})
		case lineHandled:
			d := &deliveries[open[key]]
			d.Result = e.Result
			if e.Result != resultError {
				acks = append(acks, history.Ack{EventID: d.EventID, Consumer: consumerName, Dedup: e.Yes})
			}
		}
	}
	return deliveries, acks
}

var statuses = map[int]string{0: history.StatusPending, 2: history.StatusPublished, 3: history.StatusDead}

func (s *stage) readDatabase(ctx context.Context, h *history.History, entries []entry) error {
	read := reader{ctx: ctx, db: s.db.db}
	h.Business, h.Events, h.Dedup = []history.Business{}, []history.Event{}, []history.Dedup{}
	h.Effects, h.Parked, h.Marks = []history.Effect{}, []history.Parked{}, []history.Mark{}
	read.rows("SELECT request_id, acceptance_event_id FROM orders UNION ALL SELECT request_id, event_id FROM cancellation", func(scan scan) error {
		var b history.Business
		err := scan(&b.RequestID, &b.EventID)
		h.Business = append(h.Business, b)
		return err
	})
	read.rows(`SELECT event_id, status, attempts, aggregate_type, aggregate_id, event_version,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', available_at) FROM outbox_event`, func(scan scan) error {
		var e history.Event
		var status int
		var typ, id string
		var available int64
		err := scan(&e.ID, &status, &e.Attempts, &typ, &id, &e.Version, &available)
		e.Status, e.Aggregate, e.AvailableAt = statuses[status], aggregate(typ, id), time.UnixMicro(available).UTC()
		h.Events = append(h.Events, e)
		return err
	})
	read.rows("SELECT event_id, consumer_name FROM consumed_event", func(scan scan) error {
		var d history.Dedup
		err := scan(&d.EventID, &d.Consumer)
		h.Dedup = append(h.Dedup, d)
		return err
	})
	read.rows("SELECT event_id, consumer_name FROM parked_event", func(scan scan) error {
		var p history.Parked
		err := scan(&p.EventID, &p.Consumer)
		h.Parked = append(h.Parked, p)
		return err
	})
	read.rows(`SELECT event_id, COUNT(*), (SELECT MIN(payload) FROM handled_payload p WHERE p.event_id = j.event_id)
		FROM notification_job j GROUP BY event_id`, func(scan scan) error {
		e := history.Effect{Consumer: consumerName}
		err := scan(&e.EventID, &e.Count, &e.Payload)
		h.Effects = append(h.Effects, e)
		return err
	})
	pids := map[string]int{}
	for _, p := range s.procs {
		pids[p.name] = p.proc.PID()
	}
	read.rows("SELECT event_id, actor, pid, status_before, status_after FROM outbox_change ORDER BY id", func(scan scan) error {
		m := history.Mark{Changed: true}
		var pid, before, after int
		err := scan(&m.EventID, &m.Relay, &pid, &before, &after)
		m.Owned = pid == pids[m.Relay]
		m.Before, m.After = statuses[before], statuses[after]
		m.Kind = map[int]string{0: "retry", 2: "published", 3: "dead"}[after]
		h.Marks = append(h.Marks, m)
		return err
	})
	for _, e := range entries {
		if e.Kind == lineLost {
			for _, id := range e.Events {
				h.Marks = append(h.Marks, history.Mark{EventID: id, Relay: e.actor, Kind: "published"})
			}
		}
	}
	if read.err != nil {
		return fmt.Errorf("read the database: %w", read.err)
	}
	return nil
}

// keepLogs writes the logs of a run to a folder, for a person to look at.
func (s *stage) keepLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	s.mu.Lock()
	for _, e := range s.entries {
		fmt.Fprintf(&b, "%s %+v\n", e.actor, e.line)
	}
	s.mu.Unlock()
	for _, p := range s.procs {
		fmt.Fprintf(&b, "\n== %s, process %d: %v\n%s", p.name, p.proc.PID(), p.proc.Err(), p.log.String())
	}
	name := strings.NewReplacer("/", "_", " ", "-").Replace(s.describe()) + ".log"
	return os.WriteFile(dir+string(os.PathSeparator)+name, []byte(b.String()), 0o644)
}
