package sim

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// recorder writes the history of a run. After final nothing is added.
type recorder struct {
	w *world

	mu           sync.Mutex
	history      history.History
	closed       bool
	wrong        []string
	committed    map[uuid.UUID]time.Time
	firstConfirm map[uuid.UUID]time.Time
}

func (r *recorder) init() {
	r.committed, r.firstConfirm = map[uuid.UUID]time.Time{}, map[uuid.UUID]time.Time{}
	r.history = history.History{
		Requests: []history.Request{}, Business: []history.Business{}, Events: []history.Event{}, Written: []history.Written{},
		Published: []history.Publish{}, Messages: []history.Message{}, Marks: []history.Mark{}, Deliveries: []history.Delivery{},
		Acks: []history.Ack{}, Dedup: []history.Dedup{}, Effects: []history.Effect{}, Parked: []history.Parked{}, Answers: []history.Answer{},
		Canaries: []string{}, Consumers: r.w.variant.names,
	}
}

// add runs f unless the history is closed.
func (r *recorder) add(f func(*history.History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		f(&r.history)
	}
}

// aTry is one of a request's tries: its outcome is unknown until somebody is told.
type aTry struct {
	r *recorder
	n int
}

func (r *recorder) try(q history.Request) (t aTry) {
	r.add(func(h *history.History) {
		t = aTry{r, len(h.Requests)}
		h.Requests = append(h.Requests, q)
	})
	return t
}

func (t aTry) told(o history.Outcome) {
	t.r.add(func(h *history.History) { h.Requests[t.n].Outcome = o })
}

func (t aTry) reconciled(found bool) {
	t.r.add(func(h *history.History) { h.Requests[t.n].Reconciled = &found })
}

func (r *recorder) written(w history.Written) {
	r.add(func(h *history.History) { h.Written = append(h.Written, w) })
}

func (r *recorder) answered(a history.Answer) {
	r.add(func(h *history.History) { h.Answers = append(h.Answers, a) })
}

func (r *recorder) delivered(d history.Delivery) {
	r.add(func(h *history.History) { h.Deliveries = append(h.Deliveries, d) })
}

// fault notes what happened. For a point the coverage goes by the point's name.
func (r *recorder) fault(f Fault) {
	place := string(f.Point)
	if place == "" {
		place = f.Op
	}
	times := 1
	if f.Action == Unanswered { // it can leave as many publishes unknown
		times += int(f.For / publishTimeout)
	}
	r.add(func(h *history.History) {
		for range times {
			h.Faults = append(h.Faults, history.Fault{Point: place, Outcome: string(f.Action)})
		}
	})
}

// broken notes what must never happen.
func (r *recorder) broken(what string) {
	r.add(func(*history.History) { r.wrong = append(r.wrong, what) })
}

func (r *recorder) acked(consumer string, e outbox.Envelope) {
	dedup := r.w.server.Row("consumed_event", consumer, e.ID.String()) != nil
	r.add(func(h *history.History) {
		h.Acks = append(h.Acks, history.Ack{EventID: e.ID, Consumer: consumer, Dedup: dedup})
	})
}

func (r *recorder) refused(relay, key string) {
	r.add(func(h *history.History) {
		h.Marks = append(h.Marks, history.Mark{EventID: parseID(key), Relay: relay, Kind: "lost"})
	})
}

var statuses = map[int64]string{0: history.StatusPending, 2: history.StatusPublished, 3: history.StatusDead}

// changed sees every change at its commit.
func (r *recorder) changed(c fakemysql.Change) {
	switch c.Table {
	case "outbox_lane":
		note, ok := c.Note.(*claimNote)
		if ok && c.After.Text("lease_owner") != "" && c.Before != nil && c.After.Int("lease_version") != c.Before.Int("lease_version") {
			note.leased(c.After.Int("lane"), c.After.Int("lease_version"))
		}
	case "outbox_event":
		if c.Before == nil {
			r.mu.Lock()
			r.committed[parseID(c.After.Text("event_id"))] = time.Now()
			r.mu.Unlock()
			return
		}
		r.settled(c)
	}
}

// settled notes the settlement of an event, and whether the database says that it was under
// a lease that held. That includes a time: a lease that has run out and is nobody
// else's is still its owner's, for nobody else has published under it.
func (r *recorder) settled(c fakemysql.Change) {
	before, after := c.Before, c.After
	m := history.Mark{EventID: parseID(before.Text("event_id")), Relay: c.Client, Changed: true, Before: statuses[before.Int("status")]}
	if after != nil {
		m.After = statuses[after.Int("status")]
	}
	switch {
	case m.After == history.StatusPublished:
		m.Kind = "published"
	case m.After == history.StatusDead:
		m.Kind = "dead"
	case after != nil && after.Int("attempts") != before.Int("attempts"):
		m.Kind = "retry"
	default:
		m.Kind = "released"
	}
	note, ok := c.Note.(*settleNote)
	switch {
	case ok && r.w.plan.Rows:
		m.Owned = before.Text("lease_owner") == note.owner && before.Int("lease_token") == note.leases[before.Text("event_id")]
	case ok:
		lane := c.Get("outbox_lane", before.Int("lane"))
		m.Owned = lane.Text("lease_owner") == note.owner && lane.Int("lease_version") == note.leases[before.Text("event_id")]
	case m.Kind == "released":
		return // a claim, or a renewal, of rows
	}
	r.add(func(h *history.History) { h.Marks = append(h.Marks, m) })
}

// final reads what is there in the end, and closes the history.
func (r *recorder) final() {
	w := r.w
	a := w.newActor(nobody)
	close(a.ended)
	for i := range w.plan.Requests {
		w.ask(a, i, true)
	}
	messages := w.broker.Published()
	r.add(func(h *history.History) {
		r.closed = true
		for _, row := range w.server.Rows("orders") {
			h.Business = append(h.Business, history.Business{RequestID: row.Text("request_id"), EventID: parseID(row.Text("acceptance_event_id"))})
		}
		for _, row := range w.server.Rows("outbox_event") {
			id := parseID(row.Text("event_id"))
			h.Events = append(h.Events, history.Event{
				ID: id, Status: statuses[row.Int("status")], Attempts: int(row.Int("attempts")),
				Aggregate: row.Text("aggregate_type") + "/" + row.Text("aggregate_id"), Version: row.Int("event_version"),
				AvailableAt: time.UnixMicro(row.Int("available_at")), Rejected: w.fate(id) == Rejected,
			})
		}
		for _, e := range messages {
			h.Messages = append(h.Messages, history.Message{EventID: e.ID, Aggregate: e.AggregateType + "/" + e.AggregateID, Version: e.AggregateVersion, Payload: e.Data})
		}
		r.consumers(h)
		h.Ordered = !w.plan.Rows && !jumpsBack(w.plan)
		r.delays(h)
	})
}

// jumpsBack: the order goes by a clock that doesn't.
func jumpsBack(p Plan) bool {
	for _, f := range p.Faults {
		if f.Action == Back {
			return true
		}
	}
	return false
}

func (r *recorder) consumers(h *history.History) {
	w := r.w
	for _, row := range w.server.Rows("consumed_event") {
		d := history.Dedup{EventID: parseID(row.Text("event_id")), Consumer: row.Text("consumer_name")}
		h.Dedup = append(h.Dedup, d)
		if outbox.Handling(row.Int("outcome")) == outbox.Skipped { // also when nobody was told
			h.Deliveries = append(h.Deliveries, history.Delivery{EventID: d.EventID, Consumer: d.Consumer, Result: "skipped"})
		}
	}
	for _, row := range w.server.Rows("effect") {
		h.Effects = append(h.Effects, history.Effect{EventID: parseID(row.Text("event_id")), Consumer: row.Text("consumer"), Count: 1, Payload: []byte(row.Text("payload"))})
	}
	for _, row := range w.server.Rows("parked_event") {
		h.Parked = append(h.Parked, history.Parked{EventID: parseID(row.Text("event_id")), Consumer: row.Text("consumer_name")})
	}
}

// delays are of a run in which nothing breaks but a poisoned event: what its neighbours
// of other aggregates had to wait.
func (r *recorder) delays(h *history.History) {
	if len(h.Faults) > 0 {
		return
	}
	poisoned := map[int64]bool{}
	for _, q := range r.w.plan.Requests {
		if q.Fate == Poisoned {
			poisoned[q.Aggregate] = true
		}
	}
	if len(poisoned) == 0 {
		return
	}
	h.Delays = []history.Delay{}
	for id, at := range r.committed {
		q := r.w.plan.Requests[r.w.ids[id]]
		if confirmed, ok := r.firstConfirm[id]; ok && !poisoned[q.Aggregate] {
			h.Delays = append(h.Delays, history.Delay{EventID: id, Took: confirmed.Sub(at), Bound: promptly})
		}
	}
}

// promptly is how long an event takes at most that nothing holds up: a poll, and the ways
// of its claim, its publish and those before it.
const promptly = poll + 2*time.Second

// canaryHandler looks for private values in everything that is logged.
type canaryHandler struct {
	w     *world
	attrs []slog.Attr
}

func (*canaryHandler) Enabled(context.Context, slog.Level) bool { return true }

func (c *canaryHandler) Handle(_ context.Context, r slog.Record) error {
	found := strings.Contains(r.Message, canary)
	look := func(a slog.Attr) bool {
		found = found || strings.Contains(a.Value.Resolve().String(), canary)
		return true
	}
	r.Attrs(look)
	for _, a := range c.attrs {
		look(a)
	}
	if found {
		c.w.rec.add(func(h *history.History) { h.Canaries = append(h.Canaries, "log: "+r.Message) })
	}
	return nil
}

func (c *canaryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &canaryHandler{c.w, append(c.attrs[:len(c.attrs):len(c.attrs)], attrs...)}
}

func (c *canaryHandler) WithGroup(string) slog.Handler { return c }
