package verify

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

var at = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// deadServer is a server that was never started: an address.
func deadServer(t *testing.T, e Experiment) *dbserver.Server {
	t.Helper()
	return &dbserver.Server{Flavor: e.Database}
}

func newRun(t *testing.T) *run {
	t.Helper()
	cfg, err := Config{Databases: []dbserver.Flavor{dbserver.MySQL}, Brokers: []string{"nats"}, Sparse: true, Out: io.Discard}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &run{Config: cfg, world: &world{}, coverage: cfg.coverage(), rows: map[row]int{}}
}

// passing are results of all of a plan, without a fault to find.
func passing(r *run) []result {
	var all []result
	for _, e := range r.Plan() {
		all = append(all, result{Experiment: e, verdicts: []history.Verdict{{Invariant: "I1", Result: history.Pass}}})
	}
	return all
}

func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]result) []result
		want   error
	}{
		"all passed":     {func(all []result) []result { return all }, nil},
		"an empty cell":  {func(all []result) []result { return all[:len(all)-1] }, ErrFailed},
		"no injection":   {func(all []result) []result { return all[1:] }, ErrFailed},
		"a broken claim": {func(all []result) []result { all[9].verdicts[0].Result = history.Fail; return all }, ErrFailed},
		"nothing shown":  {func(all []result) []result { all[9].missing = []string{"no repeat"}; return all }, ErrFailed},
		"not hit":        {func(all []result) []result { all[9].err = errNotHit; return all }, ErrFailed},
		"no end":         {func(all []result) []result { all[9].err = errors.New("a child crashed"); return all }, ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			for _, res := range c.change(passing(r)) {
				r.note(res, true)
			}
			if err := r.finish(t.Context()); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, want %v: %+v", err, c.want, r.record.Inconclusive)
			}
		})
	}
}

func TestWhatShowsNothingIsTriedAgain(t *testing.T) {
	r := newRun(t)
	res := passing(r)[20]
	res.missing = []string{"no repeat"}
	if r.note(res, false) || r.done != 0 || r.retried != 1 {
		t.Error("it isn't tried again")
	}
	res.verdicts[0].Result = history.Fail
	if !r.note(res, false) || r.failed != 1 {
		t.Error("a broken claim is tried again")
	}
}

func TestRequestsOf(t *testing.T) {
	id, yes := uuid.New(), true
	events := []uuid.UUID{id}
	requests, written := requestsOf([]entry{
		{"writer-1", line{Kind: lineReconciled, Request: "r"}, at}, // before any try
		{"writer-1", line{Kind: lineTry, Request: "r", Events: events}, at},
		{"writer-1", line{Kind: lineTold, Request: "r", Result: "rolled back"}, at},
		{"writer-1", line{Kind: lineReconciled, Request: "r"}, at}, // what was rolled back isn't asked for
		{"writer-1", line{Kind: lineTry, Request: "r", Events: events}, at},
		{"writer-1", line{Kind: lineWrite, Events: events, Payload: []byte("{}")}, at}, // and it dies
		{"writer-2", line{Kind: lineReconciled, Request: "r", Yes: true}, at},
	})
	want := []history.Request{
		{ID: "r", EventID: id, Outcome: history.RolledBack},
		{ID: "r", EventID: id, Outcome: history.Unknown, Reconciled: &yes},
	}
	if diff := cmp.Diff(want, requests); diff != "" || len(written) != 1 {
		t.Errorf("%s, %d written", diff, len(written))
	}
}

func TestUnansweredCalls(t *testing.T) {
	a, b := uuid.New(), uuid.New()
	s := &stage{choice: choice{requests: []request{{EventID: a, Order: 1, Version: 1}, {EventID: b, Order: 2, Version: 1}}}}
	published := s.published([]entry{
		{"relay-1", line{Kind: lineHanded, N: 1, Events: []uuid.UUID{a, b}}, at},
		{"relay-2", line{Kind: lineHanded, N: 1, Events: []uuid.UUID{a}}, at},
		{"relay-2", line{Kind: lineAnswered, N: 1, Results: []string{confirmed}}, at}, // relay-1 has died
	})
	want := []history.Publish{
		{EventID: a, Aggregate: "order/1", Version: 1, Relay: "relay-2", Confirmed: true},
		{EventID: a, Aggregate: "order/1", Version: 1, Relay: "relay-1", Kind: "unknown"},
		{EventID: b, Aggregate: "order/2", Version: 1, Relay: "relay-1", Kind: "unknown"},
	}
	if diff := cmp.Diff(want, published); diff != "" {
		t.Error(diff)
	}
	deliveries, acks := deliveriesOf([]entry{
		{"consumer-1", line{Kind: lineDelivered, N: 1, Events: []uuid.UUID{a}}, at},
		{"consumer-1", line{Kind: lineDelivered, N: 2, Events: []uuid.UUID{b}}, at},
		{"consumer-1", line{Kind: lineHandled, N: 2, Result: "applied", Yes: true}, at},
	})
	if diff := cmp.Diff([]history.Delivery{
		{EventID: a, Consumer: consumerName, Result: resultError}, {EventID: b, Consumer: consumerName, Result: "applied"},
	}, deliveries); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]history.Ack{{EventID: b, Consumer: consumerName, Dedup: true}}, acks); diff != "" {
		t.Error(diff)
	}
}

// TestReach: a consumer's failure excuses no repeat of a relay's.
func TestReach(t *testing.T) {
	id := uuid.New()
	entries := []entry{
		{"relay-1", line{Kind: lineHanded, N: 1, Events: []uuid.UUID{id}}, at},
		{"relay-2", line{Kind: lineHanded, N: 1, Events: []uuid.UUID{uuid.New()}}, at},
	}
	for _, c := range []struct {
		e    Experiment
		want []uuid.UUID
	}{
		{Experiment{Point: fault.ConsumerEffect, Outcome: record.OutcomeKill}, []uuid.UUID{}},
		{Experiment{Point: fault.WriterReply, Outcome: record.OutcomeCutReply}, []uuid.UUID{}},
		{Experiment{Point: fault.RelayConfirmed, Outcome: record.OutcomeKill}, []uuid.UUID{id}},
		{Experiment{Point: fault.ConsumerEffect, Outcome: record.OutcomePeerKilled}, nil},
	} {
		s := &stage{Experiment: c.e}
		if diff := cmp.Diff(c.want, s.reach(entries)); diff != "" {
			t.Errorf("%s: %s", c.e.ident(), diff)
		}
	}
}

// TestUnplanned: what a relay admits excuses a repeat, and a lease that was lost too soon does not.
func TestUnplanned(t *testing.T) {
	a, b := uuid.New(), uuid.New()
	handed := entry{"relay-1", line{Kind: lineHanded, N: 1, Events: []uuid.UUID{a, b}}, at}
	for name, c := range map[string]struct {
		then entry
		want []uuid.UUID
	}{
		"confirmed":     {entry{"relay-1", line{Kind: lineAnswered, N: 1, Results: []string{confirmed, confirmed}}, at}, nil},
		"unknown":       {entry{"relay-1", line{Kind: lineAnswered, N: 1, Results: []string{confirmed, "unknown"}}, at}, []uuid.UUID{b}},
		"another's":     {entry{"relay-2", line{Kind: lineTrouble}, at}, nil},
		"lost too soon": {entry{"relay-1", line{Kind: lineLost, Events: []uuid.UUID{a}}, at.Add(lease / 4)}, nil},
		"lost":          {entry{"relay-1", line{Kind: lineLost, Events: []uuid.UUID{a}}, at.Add(lease)}, []uuid.UUID{a}},
	} {
		var got []uuid.UUID
		for _, f := range unplanned([]entry{handed, c.then}) {
			got = append(got, f.Events...)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if faults := unplanned([]entry{handed, {"relay-1", line{Kind: lineTrouble}, at}}); len(faults) != 1 || len(faults[0].Events) != 2 {
		t.Errorf("a mark that failed: %+v", faults)
	}
}
