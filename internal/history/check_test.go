package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// The events of the good history, by number.
var ids = func() (ids [5]uuid.UUID) {
	for i := range ids {
		ids[i] = uuid.MustParse("01900000-0000-7000-8000-00000000000" + string(rune('0'+i)))
	}
	return ids
}()

const planner, report = "planner", "report"

// good is a history in which much has happened and nothing went wrong: event 0 was
// published twice after a relay's death, event 1 came behind it, 2 was refused by the
// broker, 3 was rolled back, and 4 committed although its writer was told Unknown, and
// was parked by one consumer.
func good() History {
	yes, no := true, false
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := History{
		Requests: []Request{
			{ID: "r0", EventID: ids[0], Outcome: RolledBack}, {ID: "r0", EventID: ids[0], Outcome: Committed},
			{ID: "r1", EventID: ids[1], Outcome: Committed}, {ID: "r2", EventID: ids[2], Outcome: Committed},
			{ID: "r3", EventID: ids[3], Outcome: RolledBack}, {ID: "r3", EventID: ids[3], Outcome: Unknown, Reconciled: &no},
			{ID: "r4", EventID: ids[4], Outcome: Unknown, Reconciled: &yes},
		},
		Marks: []Mark{
			{EventID: ids[0], Relay: "a", Kind: "published", Before: StatusPending, After: StatusPending},
			{EventID: ids[0], Relay: "b", Kind: "published", Changed: true, Owned: true, Before: StatusPending, After: StatusPublished},
			{EventID: ids[2], Relay: "b", Kind: "dead", Changed: true, Owned: true, Before: StatusPending, After: StatusDead},
		},
		Deliveries: []Delivery{
			{ids[0], planner, "error"}, {ids[0], planner, "applied"}, {ids[0], report, "applied"}, {ids[0], planner, "duplicate"},
			{ids[1], planner, "applied"}, {ids[1], report, "skipped"}, {ids[4], planner, "applied"}, {ids[4], report, "parked"},
		},
		Acks: []Ack{
			{ids[0], planner, true}, {ids[0], report, true}, {ids[0], planner, true},
			{ids[1], planner, true}, {ids[1], report, true}, {ids[4], planner, true}, {ids[4], report, false},
		},
		Dedup: []Dedup{{ids[0], planner}, {ids[0], report}, {ids[1], planner}, {ids[1], report}, {ids[4], planner}},
		Effects: []Effect{
			{ids[0], planner, 1, []byte(`{"n": 0}`)}, {ids[0], report, 1, nil}, {ids[1], planner, 1, nil}, {ids[4], planner, 1, nil},
		},
		Parked: []Parked{{ids[4], report}},
		Answers: []Answer{
			{ids[0], "", false}, {ids[0], StatusPublishing, false}, {ids[0], StatusPublished, true},
			{ids[2], StatusDead, true}, {ids[3], "", true},
		},
		Faults:    []Fault{{"R7", "kill", []uuid.UUID{ids[0]}}, {"W5", "cut reply", []uuid.UUID{ids[4]}}},
		Delays:    []Delay{{ids[1], time.Second, 2 * time.Second}},
		Canaries:  []string{},
		Leaks:     &Leaks{},
		Consumers: []string{planner, report},
		Ordered:   true,
		Deadline:  time.Minute,
	}
	for _, i := range []int{0, 1, 2, 4} {
		h.Business = append(h.Business, Business{"r" + string(rune('0'+i)), ids[i]})
		e := Event{ID: ids[i], Status: StatusPublished, Aggregate: "order/1", Version: int64(i), AvailableAt: began.Add(time.Duration(i) * time.Second)}
		if i == 2 {
			e.Status, e.Rejected = StatusDead, true
		}
		h.Events = append(h.Events, e)
	}
	for i, id := range ids {
		h.Written = append(h.Written, Written{id, "order.accepted", "order/1", int64(i), []byte(`{"n":` + string(rune('0'+i)) + `}`)})
	}
	for _, i := range []int{0, 1, 0, 4} {
		h.Published = append(h.Published, Publish{EventID: ids[i], Aggregate: "order/1", Version: int64(i), Relay: "b", Confirmed: true})
		h.Messages = append(h.Messages, Message{ids[i], "order/1", int64(i), []byte(`{"n": ` + string(rune('0'+i)) + `}`)})
	}
	h.Published = append(h.Published,
		Publish{EventID: ids[1], Relay: "b", Kind: "unavailable"}, Publish{EventID: ids[1], Relay: "b", Kind: "unavailable"})
	return h
}

func TestGood(t *testing.T) {
	for _, v := range Check(good()) {
		if v.Result != Pass {
			t.Errorf("%s %s: %q", v.Invariant, v.Result, v.Evidence)
		}
	}
}

// Nothing is judged of which nothing is known.
func TestNothingObserved(t *testing.T) {
	for _, v := range Check(History{}) {
		if v.Result != NotJudged || len(v.Evidence) == 0 || !strings.HasPrefix(v.Evidence[0], "not observed: ") {
			t.Errorf("%s %s: %q", v.Invariant, v.Result, v.Evidence)
		}
	}
}

// An experiment that saw nothing happen has observed it, but for an order, which takes two.
func TestEmptyIsObserved(t *testing.T) {
	h := History{
		Requests: []Request{}, Business: []Business{}, Events: []Event{}, Written: []Written{}, Published: []Publish{},
		Messages: []Message{}, Marks: []Mark{}, Acks: []Ack{}, Effects: []Effect{}, Answers: []Answer{}, Delays: []Delay{},
		Canaries: []string{}, Leaks: &Leaks{}, Ordered: true,
	}
	for _, v := range Check(h) {
		want := Pass
		if v.Invariant == "I9" {
			want = NotJudged
		}
		if v.Result != want {
			t.Errorf("%s %s: %q", v.Invariant, v.Result, v.Evidence)
		}
	}
}

// Each falsified history breaks the invariants named and no other.
func TestBroken(t *testing.T) {
	flip := func(b bool) *bool { return &b }
	for _, test := range []struct {
		name     string
		falsify  func(*History)
		failures string
	}{
		{"business change without event", func(h *History) {
			h.Business = append(h.Business, Business{"r9", uuid.Max})
		}, "I1"},
		{"event without business change", func(h *History) {
			h.Requests, h.Business = nil, slices.Delete(h.Business, 0, 1)
		}, "I1"},
		{"a request done twice", func(h *History) { h.Business[1].RequestID = "r0"; h.Requests = nil }, "I1"},
		{"not published", func(h *History) { h.Events[3].Status = StatusPending }, "I2"},
		{"leased for ever", func(h *History) { h.Events[3].Status = StatusPublishing }, "I2"},
		{"dead without a refusal", func(h *History) { h.Events[2].Rejected = false }, "I2"},
		{"published, and not at the broker", func(h *History) {
			lost := h.Messages[1].EventID
			h.Messages = slices.Delete(h.Messages, 1, 2)
			h.Deliveries = slices.DeleteFunc(h.Deliveries, func(d Delivery) bool { return d.EventID == lost })
		}, "I2 I4"},
		{"a message of what was rolled back", func(h *History) {
			h.Messages = append(h.Messages, Message{ids[3], "order/2", 1, []byte(`{"n":3}`)})
		}, "I3"},
		{"a publish of what was rolled back", func(h *History) {
			h.Published = append(h.Published, Publish{EventID: ids[3], Confirmed: true})
		}, "I3"},
		{"two effects", func(h *History) { h.Effects[1].Count = 2 }, "I4"},
		{"two effects, in two rows", func(h *History) { h.Effects = append(h.Effects, h.Effects[1]) }, "I4"},
		{"no effect", func(h *History) { h.Effects[1].Count, h.Dedup = 0, slices.Delete(h.Dedup, 1, 2) }, "I4"},
		{"a dedup row without effect", func(h *History) { h.Dedup = append(h.Dedup, Dedup{ids[2], planner}) }, "I4"},
		{"an effect of what was rolled back", func(h *History) { h.Effects = append(h.Effects, Effect{ids[3], report, 1, nil}) }, "I4"},
		{"acknowledged before the commit", func(h *History) { h.Acks[2].Dedup = false }, "I5"},
		{"a late mark that changed the row", func(h *History) { h.Marks[0].Changed = true }, "I6"},
		{"published and taken back", func(h *History) {
			h.Marks[1].Before, h.Marks[1].After = StatusPublished, StatusPending
		}, "I6"},
		{"dead and taken back", func(h *History) {
			h.Marks[2].Before, h.Marks[2].After = StatusDead, StatusPending
		}, "I6"},
		{"published once, by a mark's word, and pending in the end", func(h *History) { h.Events[0].Status = StatusPending; h.Answers = nil }, "I2 I6"},
		{"a repeat without a fault", func(h *History) { h.Faults = h.Faults[1:] }, "I7"},
		{"a publish too many", func(h *History) {
			h.Published = append(h.Published, Publish{EventID: ids[0], Kind: "unknown"})
		}, "I7"},
		{"a message too many", func(h *History) { h.Messages = append(h.Messages, h.Messages[0]) }, "I7"},
		{"another payload at the broker", func(h *History) { h.Messages[1].Payload = []byte(`{"n": 7}`) }, "I8"},
		{"another payload in the repeat", func(h *History) {
			h.Messages[2].Payload, h.Effects[0].Payload = []byte(`{"n":0}`), nil
		}, "I8"},
		{"another payload for the handler", func(h *History) { h.Effects[0].Payload = []byte(`{"n":0}`) }, "I8"},
		{"a payload that nobody wrote", func(h *History) { h.Written = h.Written[1:] }, "I8"},
		{"out of order", func(h *History) { h.Messages[1], h.Messages[3] = h.Messages[3], h.Messages[1] }, "I9"},
		{"out of order by version", func(h *History) {
			for i := range h.Events {
				h.Events[i].AvailableAt = time.Time{}
			}
			h.Messages[0], h.Messages[1] = h.Messages[1], h.Messages[0]
		}, "I9"},
		{"held up", func(h *History) { h.Delays[0].Took = time.Hour }, "I10"},
		{"told committed", func(h *History) {
			h.Requests = append(h.Requests, Request{ID: "r9", EventID: uuid.Max, Outcome: Committed})
		}, "I11"},
		{"told rolled back", func(h *History) { h.Requests[2].Outcome = RolledBack }, "I11"},
		{"found by Reconcile", func(h *History) { h.Requests[5].Reconciled = flip(true) }, "I11"},
		{"absent for Reconcile", func(h *History) { h.Requests[6].Reconciled = flip(false) }, "I11"},
		{"looked up as published", func(h *History) { h.Answers[4] = Answer{ids[2], StatusPublished, false} }, "I11"},
		{"looked up as pending, and gone", func(h *History) { h.Answers[4] = Answer{ids[3], StatusPending, false} }, "I11"},
		{"looked up as unknown in the end", func(h *History) { h.Answers[2].State = "" }, "I11"},
		{"a private value", func(h *History) { h.Canaries = append(h.Canaries, "log") }, "I12"},
		{"a goroutine", func(h *History) { h.Leaks.Goroutines = 1 }, "I13"},
		{"a connection", func(h *History) { h.Leaks.Connections = 1 }, "I13"},
		{"a transaction", func(h *History) { h.Leaks.Transactions = 1 }, "I13"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := good()
			test.falsify(&h)
			var failed []string
			for _, v := range Failed(Check(h)) {
				failed = append(failed, v.Invariant)
				if !slices.ContainsFunc(v.Evidence, func(s string) bool { return strings.HasSuffix(s, " violations") }) {
					t.Errorf("%s: %q doesn't say how many", v.Invariant, v.Evidence)
				}
			}
			if got := strings.Join(failed, " "); got != test.failures {
				t.Errorf("%q failed, want %q", got, test.failures)
			}
		})
	}
}

// What a consumer was handed was at the broker, though the queue that counts the messages
// doesn't have it.
func TestDeliveredWasAtTheBroker(t *testing.T) {
	h := good()
	h.Messages = slices.Delete(h.Messages, 1, 2)
	v := Check(h)[1]
	if v.Invariant != "I2" || v.Result != Pass || !slices.Contains(v.Evidence, "1 events known to be at the broker by their deliveries alone") {
		t.Errorf("%s %s %q", v.Invariant, v.Result, v.Evidence)
	}
}

// An outcome that is unknown agrees with both ends.
func TestUnknownAgreesWithBoth(t *testing.T) {
	for _, committed := range []bool{false, true} {
		h := History{Requests: []Request{{ID: "r", EventID: ids[0], Outcome: Unknown}}, Business: []Business{}}
		if committed {
			h.Business = append(h.Business, Business{"r", ids[0]})
		}
		if v := Check(h)[10]; v.Result != Pass {
			t.Errorf("committed %v: %s %s %q", committed, v.Invariant, v.Result, v.Evidence)
		}
	}
}

// MySQL's JSON column has an order of keys and blanks of its own.
func TestSameJSON(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{`{"id":1,"a":[1,null,"x"]}`, `{"a": [1, null, "x"], "id": 1}`, true},
		{`{"f":1.50}`, `{"f":1.5}`, true},
		{`{"f":1e2}`, `{"f":100.0}`, true},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		{`{"n":1}`, `{"n":"1"}`, false},
		{`{"n":1}`, `{"n":1,"m":null}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"n":1}`, `{"n":1} {}`, false},
		{`{"n":1}`, `{"n":`, false},
	} {
		if got := SameJSON([]byte(test.a), []byte(test.b)); got != test.same {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}

// What can't be counted is said, and counts for nothing.
func TestNotCounted(t *testing.T) {
	v := Check(History{Leaks: &Leaks{Goroutines: 7, NotCounted: []string{"goroutines"}}})[12]
	if v.Result != Pass || !slices.Contains(v.Evidence, "not counted: goroutines") || !slices.Contains(v.Evidence, "0 connections left") {
		t.Errorf("%+v", v)
	}
}

// Evidence stays short however much went wrong.
func TestEvidenceIsBounded(t *testing.T) {
	h := History{Events: []Event{}, Messages: make([]Message, 100)}
	evidence := Check(h)[2].Evidence
	if !slices.Contains(evidence, "100 violations") || len(evidence) > shownViolations+2 {
		t.Errorf("%q", evidence)
	}
}

func TestInconclusive(t *testing.T) {
	plan := Plan{
		Faults:  []Fault{{"R7", "kill", nil}, {"R7", "kill", []uuid.UUID{ids[0], ids[1]}}, {Point: "W5", Outcome: "cut reply"}},
		Unknown: true, Repeat: true, LostLease: true, Redelivery: true, Error: true,
	}
	if missing := Inconclusive(good(), plan); missing != nil {
		t.Errorf("missing: %q", missing)
	}
	plan.Faults = []Fault{{"R8", "kill", nil}, {"R7", "stop", nil}, {"R7", "kill", []uuid.UUID{ids[1]}}}
	want := []string{
		`the fault "kill" at R8 did not happen`, `the fault "stop" at R7 did not happen`, `the fault "kill" at R7 did not happen`,
		"no writer was told Unknown", "no event was published again", "no mark was refused for a lost lease",
		"no message was delivered again after its effect", "no attempt of a consumer failed",
	}
	calm := good()
	calm.Requests, calm.Messages, calm.Marks, calm.Deliveries = calm.Requests[:1], calm.Messages[:1], calm.Marks[1:], calm.Deliveries[1:3]
	if diff := cmp.Diff(want, Inconclusive(calm, plan)); diff != "" {
		t.Error(diff)
	}
}
