package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	errTest    = errors.New("as the test has it")
	testCause  = cause{"trouble", outbox.FailureUnavailable, func(err error) bool { return errors.Is(err, errTest) }}
	testReason = "nobody wants it"
)

// sound is a history with nothing wrong: eight events of four aggregates, the last of
// which has to die; the first came twice after an unknown outcome.
func sound() (*history, expectation) {
	all := newEvents(8, 8)
	h := &history{
		events: all, rows: make(map[uuid.UUID]row), record: newRecord([]cause{testCause}),
		evidence: map[string]int{"a cut": 1},
	}
	held := holding{name: "queue", not: orderevents.EventTypeOrderCancelled}
	r := h.record
	r.add(all[0].id, outbox.PublishUnknown(errTest))
	held.ids = append(held.ids, all[0].id)
	for i, e := range all[:7] {
		if i == 4 {
			r.before, r.after, r.mended = 4, 4, true
			r.add(all[4].id, outbox.PublishUnavailable(errTest))
			r.add(all[5].id, outbox.PublishHeldBack(errTest))
		}
		r.add(e.id, nil)
		held.ids = append(held.ids, e.id)
		h.rows[e.id] = row{state: published}
	}
	r.add(all[7].id, outbox.PublishRejected(errors.New(testReason)))
	h.rows[all[7].id] = row{state: dead, attempts: 1, kind: "rejected", reason: "publish rejected: " + testReason}
	h.holdings = []holding{held}
	h.stats = outbox.RelayStats{Confirmed: 7, Unknown: 1, Dead: 1}
	return h, expectation{
		failures: []outbox.FailureKind{outbox.FailureUnknown, outbox.FailureUnavailable, outbox.FailureRejected},
		causes:   []cause{testCause}, reason: testReason, dies: orderevents.EventTypeOrderCancelled,
	}
}

func TestSoundHistory(t *testing.T) {
	h, want := sound()
	got := judge(h, want)
	if err := got.err(); err != nil {
		t.Error(err)
	}
	if got.Published != 7 || got.Dead != 1 || got.Messages != 8 || got.Duplicates != 1 || got.MostDuplicates != 1 {
		t.Errorf("%+v", got)
	}
}

// set changes an event's row.
func (h *history) set(i int, change func(*row)) {
	r := h.rows[h.events[i].id]
	change(&r)
	h.rows[h.events[i].id] = r
}

func without(ids []uuid.UUID, gone uuid.UUID) []uuid.UUID {
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return id == gone })
}

// Each lie about a sound history is found out, under its own name.
func TestFalsifiedHistories(t *testing.T) {
	for name, test := range map[string]struct {
		lie  func(h *history, want *expectation)
		want string
	}{
		"a published event is gone": {func(h *history, _ *expectation) {
			h.holdings[0].ids = without(h.holdings[0].ids, h.events[5].id)
		}, "is lost"},
		"a second queue lacks one": {func(h *history, _ *expectation) {
			h.holdings = append(h.holdings, holding{name: "other", not: h.holdings[0].not, ids: without(h.holdings[0].ids, h.events[2].id)})
		}, "other does not have it"},
		"an event still waits": {func(h *history, _ *expectation) {
			h.set(3, func(r *row) { r.state = "PENDING" })
		}, "stuck: PENDING"},
		"an event is leased for ever": {func(h *history, _ *expectation) {
			h.set(3, func(r *row) { r.state = "PUBLISHING" })
		}, "stuck: PUBLISHING"},
		"a row is missing": {func(h *history, _ *expectation) { delete(h.rows, h.events[3].id) }, "isn't in the outbox"},
		"a row too many": {func(h *history, _ *expectation) {
			h.rows[outbox.NewEventID()] = row{state: published}
		}, "the outbox has 9 events"},
		"an outage counted as an attempt": {func(h *history, _ *expectation) {
			h.set(4, func(r *row) { r.attempts = 1 })
		}, "an outage counts none"},
		"an outage left a reason": {func(h *history, _ *expectation) {
			h.set(4, func(r *row) { r.kind, r.reason = "failed", "timeout" })
		}, "an outage counts none"},
		"marked without a confirm": {func(h *history, _ *expectation) {
			h.record.byEvent[h.events[6].id].Confirmed = 0
		}, "never confirmed"},
		"dead of something else": {func(h *history, _ *expectation) {
			h.set(7, func(r *row) { r.reason = "the broker is away" })
		}, "is dead of"},
		"dead of another kind": {func(h *history, _ *expectation) {
			h.set(7, func(r *row) { r.kind = "failed" })
		}, "is dead of"},
		"dead without a rejection": {func(h *history, _ *expectation) {
			h.record.byEvent[h.events[7].id].Failures = nil
		}, "0 rejections"},
		"dead where none may die": {func(_ *history, want *expectation) { want.reason = "" }, "is dead of"},
		"published though it has to die": {func(h *history, _ *expectation) {
			h.set(7, func(r *row) { *r = row{state: published} })
		}, "must be dead"},
		"a failure of a kind that isn't this fault's": {func(h *history, _ *expectation) {
			h.record.add(h.events[6].id, outbox.PublishFailed(errTest))
		}, "1 events were failed"},
		"a message that nothing explains": {func(h *history, _ *expectation) {
			h.holdings[0].ids = append(h.holdings[0].ids, h.events[3].id)
		}, "1 are unexplained"},
		"a dead event is at the broker": {func(h *history, _ *expectation) {
			h.holdings[0].ids = append(h.holdings[0].ids, h.events[7].id)
		}, "1 are unexplained"},
		"an event where it doesn't belong": {func(h *history, _ *expectation) {
			h.holdings[0].not = orderevents.EventTypeOrderAccepted
		}, "doesn't go there"},
		"a stranger": {func(h *history, _ *expectation) {
			h.holdings[0].ids = append(h.holdings[0].ids, outbox.NewEventID())
		}, "nobody committed"},
		"out of order": {func(h *history, _ *expectation) {
			ids := h.holdings[0].ids
			ids[2], ids[6] = ids[6], ids[2] // versions 1 and 2 of one aggregate
		}, "behind version"},
		"the fault came first": {func(h *history, _ *expectation) { h.record.before = 0 }, "inconclusive: the run did not have an event confirmed before"},
		"no fault came":        {func(h *history, _ *expectation) { h.record.before = -1 }, "inconclusive"},
		"the fault came last":  {func(h *history, _ *expectation) { h.record.after = 8 }, "inconclusive: the run did not have an event left"},
		"it was never over":    {func(h *history, _ *expectation) { h.record.mended = false }, "inconclusive"},
		"its cause wasn't seen": {func(h *history, _ *expectation) {
			clear(h.record.seen)
		}, "inconclusive: the run did not have trouble as unavailable"},
		"the script saw nothing": {func(h *history, _ *expectation) { h.evidence["a cut"] = 0 }, "inconclusive: the run did not have a cut"},
		"the relays retried":     {func(h *history, _ *expectation) { h.stats.Retried = 1 }, "1 retried"},
		"the relays buried":      {func(h *history, _ *expectation) { h.stats.Dead = 2 }, "2 dead"},
		"the relays lost count":  {func(h *history, _ *expectation) { h.stats.Unknown = 0 }, "0 unknown"},
		"the relays overtook":    {func(h *history, _ *expectation) { h.stats.OutOfOrder = 1 }, "1 out of order"},
		"a lossy queue lost nothing": {func(_ *history, want *expectation) {
			want.lossy = []string{"queue"}
		}, "inconclusive: queue lost 0"},
		"a lossy queue lost what came after": {func(h *history, want *expectation) {
			want.lossy = []string{"queue"}
			h.holdings[0].ids = without(without(h.holdings[0].ids, h.events[1].id), h.events[6].id)
		}, "is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			h, want := sound()
			test.lie(h, &want)
			err := judge(h, want).err()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A queue that the fault emptied may lack what was confirmed before it was mended.
func TestLossyQueue(t *testing.T) {
	h, want := sound()
	want.lossy = []string{"queue"}
	h.holdings[0].ids = without(without(h.holdings[0].ids, h.events[0].id), h.events[2].id)
	got := judge(h, want)
	if err := got.err(); err != nil || got.Missed != 2 {
		t.Errorf("%v, %d missed", err, got.Missed)
	}
}

// What goes wrong many times is told a few times.
func TestProblemsAreBounded(t *testing.T) {
	h, want := sound()
	for i := range 100 {
		h.rows[h.events[0].id] = row{state: fmt.Sprint("odd", i)}
		h.events = append(h.events, h.events[0])
	}
	if got := judge(h, want); len(got.problems) != mostProblems {
		t.Errorf("%d problems", len(got.problems))
	}
}
