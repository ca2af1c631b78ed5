package record

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
)

const private = "canary-4711"

var eventID = uuid.MustParse("01900000-0000-7000-8000-000000000001")

// run is a history with private values wherever there is room for one.
func run() history.History {
	payload := []byte(`{"note":"` + private + `"}`)
	return history.History{
		Requests: []history.Request{{ID: "r1", EventID: eventID, Outcome: history.Committed}},
		Business: []history.Business{{RequestID: "r1", EventID: eventID}},
		Written:  []history.Written{{EventID: eventID, Type: "order.accepted", Aggregate: "order/1", Version: 1, Payload: payload}},
		Events:   []history.Event{{ID: eventID, Status: history.StatusPublished, Aggregate: "order/1", Version: 1}},
		Published: []history.Publish{
			{EventID: eventID, Relay: "a", Confirmed: true}, {EventID: eventID, Relay: "b", Confirmed: true},
			{EventID: eventID, Relay: "b", Kind: "unavailable"},
		},
		Messages:   []history.Message{{EventID: eventID, Payload: payload}, {EventID: eventID, Payload: payload}},
		Marks:      []history.Mark{{EventID: eventID, Relay: "a", Kind: "published"}},
		Deliveries: []history.Delivery{{EventID: eventID, Consumer: "c", Result: "applied"}, {EventID: eventID, Consumer: "c", Result: "duplicate"}},
		Acks:       []history.Ack{{EventID: eventID, Consumer: "c", Dedup: true}},
		Dedup:      []history.Dedup{{EventID: eventID, Consumer: "c"}},
		Effects:    []history.Effect{{EventID: eventID, Consumer: "c", Count: 1, Payload: payload}},
		Faults:     []history.Fault{{Point: "R7", Outcome: OutcomeKill}},
		Consumers:  []string{"c"},
	}
}

func full(t *testing.T) *Record {
	t.Helper()
	r := &Record{
		ExperimentID: "e1", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Seconds: 1.5,
		Command: "go test -run TestVerify", Seed: "7", Schedules: 2, Versions: BuildVersions(),
	}
	r.Versions.Servers, r.Versions.Brokers, r.Versions.Clients = []string{"MySQL 9.7"}, []string{"memory"}, []string{"none"}
	for range 2 {
		if verdicts, failed := r.AddRun(run()); failed {
			t.Fatalf("%+v", history.Failed(verdicts))
		}
	}
	for _, want := range RequiredInjections() {
		r.Injections = append(r.Injections, Injection{
			ID: want.ID, Title: want.Title, Point: string(want.Point), Outcome: OutcomeKill, Expected: want.Expected,
			Event:    Event{RequestID: "r1", EventID: eventID, Aggregate: "order/1", Type: "order.accepted", Version: 1},
			Observed: []string{"1 message more"}, Result: Pass,
		})
	}
	r.Injections = append(r.Injections, Injection{ID: "no-event", Observed: []string{}, Result: Pass})
	c := NewCoverage([]string{"mysql"}, []string{"nats"})
	for _, cell := range c.Cells() {
		if err := c.Add(cell, 1); err != nil {
			t.Fatal(err)
		}
	}
	r.Coverage = c.Summary(1)
	return r
}

func TestReadsBackEqual(t *testing.T) {
	r := full(t)
	if got := r.Judge(); got != Pass {
		t.Fatalf("%s, inconclusive: %q", got, r.Inconclusive)
	}
	path := filepath.Join(t.TempDir(), "folder", FileName)
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(private)) {
		t.Error("the record has a payload")
	}
	if events := bytes.Count(text, []byte("    event:")); events != len(RequiredInjections()) {
		t.Errorf("%d events", events)
	}
	for _, want := range []string{
		"experiment_id: e1", "event_id: " + eventID.String(), "request_id: r1", "id: I13", "committed_requests: 2",
		"duplicates_absorbed: 2", "result: PASS", "id: " + DedupError,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the record lacks %q", want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if _, err := Read(path); err == nil {
		t.Error("a file that isn't there is read")
	}
	if err := os.WriteFile(path, []byte("experiment_id: e1\nresults: PASS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "results") {
		t.Errorf("%v, want one that names the unknown key", err)
	}
}

func TestCounts(t *testing.T) {
	var c Counts
	c.Add(CountsOf(run()))
	c.Add(CountsOf(run()))
	want := Counts{
		CommittedRequests: 2, Events: map[string]int{history.StatusPublished: 2}, Publishes: 4, BrokerMessages: 4, HandleAttempts: 4,
		Duplicates: 2, DedupRows: 2, Effects: 2, LostLeases: 2, Faults: 2,
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Record)
		want   Result
	}{
		{"all well", func(*Record) {}, Pass},
		{"an injection missing", func(r *Record) { r.Injections = r.Injections[1:] }, Inconclusive},
		{"an injection inconclusive", func(r *Record) { r.Injections[2].Result = Inconclusive }, Inconclusive},
		{"an injection failed", func(r *Record) { r.Injections[2].Result = Fail }, Fail},
		{"one failed, a later one inconclusive", func(r *Record) { r.Injections[1].Result, r.Injections[2].Result = Fail, Inconclusive }, Fail},
		{"an empty cell", func(r *Record) { r.Coverage.Empty = 1 }, Inconclusive},
		{"a fault that did not happen", func(r *Record) { r.Inconclusive = []string{"no fault"} }, Inconclusive},
		{"an invariant failed once", func(r *Record) {
			h := run()
			h.Effects[0].Count = 2
			r.AddRun(h)
			r.AddRun(run())
		}, Fail},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := full(t)
			test.change(r)
			if got, again := r.Judge(), r.Judge(); got != test.want || again != test.want {
				t.Errorf("%s, then %s; want %s", got, again, test.want)
			}
		})
	}
}

// The first run that failed is what a reader must see, wherever it is.
func TestVerdictsOfManyRuns(t *testing.T) {
	var r Record
	r.AddRun(history.History{})
	for _, effects := range []int{1, 2, 3, 1} {
		h := run()
		h.Effects[0].Count = effects
		r.AddRun(h)
	}
	got := r.Invariants[3]
	if got.ID != "I4" || got.Result != history.Fail || got.Judged != 4 || got.Failed != 2 || !strings.Contains(strings.Join(got.Evidence, "\n"), "2 times") {
		t.Errorf("%+v", got)
	}
	if got := r.Invariants[9]; got.Result != history.NotJudged || got.Judged != 0 {
		t.Errorf("%+v", got)
	}
	if got := r.Invariants[4]; got.Result != history.Pass || got.Judged != 4 || strings.Contains(got.Evidence[0], "not observed") {
		t.Errorf("%+v", got)
	}
}

func TestVersions(t *testing.T) {
	v := BuildVersions()
	if !strings.HasPrefix(v.Go, "go1.") || !strings.HasPrefix(v.Outboxgen, runtimeModule+" ") {
		t.Errorf("%+v", v)
	}
	if got := ModuleVersion("gopkg.in/yaml.v3"); !strings.HasPrefix(got, "gopkg.in/yaml.v3 v3.") {
		t.Error(got)
	}
	if got := ModuleVersion("example.org/none"); got != "example.org/none unknown" {
		t.Error(got)
	}
}
