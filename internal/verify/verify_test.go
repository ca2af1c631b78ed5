package verify

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/record"
)

func TestMain(m *testing.M) {
	if RunChild() {
		return
	}
	// Otherwise the race detector lets every child wait for a second at its end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRun runs a handful of experiments on both databases: a death, a stop, both sides of
// a cut COMMIT, a zombie, an error, and the database's own end.
func TestRun(t *testing.T) {
	var out strings.Builder
	err := Run(t.Context(), Config{
		Only:    "R7/kill,C9/stop,W4/cut request,W5/cut reply,C6/kill,C2/1205,W4/peer killed,expired-lease-late-mark",
		Brokers: []string{"nats"},
		Lanes:   8,
		Dir:     t.TempDir(),
		Out:     &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "16 of 16, 0 not passed") {
		t.Errorf("not everything was run:\n%s", out.String())
	}
}

func TestNothingToRun(t *testing.T) {
	if err := Run(t.Context(), Config{Only: "R7/fire"}); err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("an unknown cell: %v", err)
	}
}

// deadBroker is a broker that is never asked.
type deadBroker struct{ brokerServer }

func (deadBroker) addr() string { return "127.0.0.1:1" }

func TestEveryCellCanBeBroughtAbout(t *testing.T) {
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	plan := cfg.Plan()
	cells := len(cfg.coverage().Cells())
	if want := cells + len(record.RequiredInjections())*len(cfg.Databases)*len(cfg.Brokers); len(plan) != want {
		t.Errorf("%d experiments, want %d", len(plan), want)
	}
	seeds := map[uint64]bool{}
	for _, e := range plan {
		if seeds[e.Seed] {
			t.Errorf("%s shares its seed", e.ident())
		}
		seeds[e.Seed] = true
		s := &stage{Experiment: e, choice: e.choose(), db: &database{server: deadServer(t, e)}, broker: deadBroker{}}
		i, err := newInjection(s)
		if err != nil {
			t.Errorf("%s: %v", e.ident(), err)
			continue
		}
		if steps, err := fault.Parse(i.script); err != nil || len(steps) == 0 && i.armed == nil {
			t.Errorf("%s: script %q, nothing at the wire: %v", e.ident(), i.script, err)
		}
		i.close()
	}
}

func TestSparsePlanHasEveryRow(t *testing.T) {
	cfg, err := Config{Sparse: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	rows, killsBroker := map[row]bool{}, 0
	for _, e := range cfg.Plan() {
		rows[row{e.Point, e.Outcome}] = true
		if e.Outcome == record.OutcomePeerKilled && e.killsBroker() {
			killsBroker++
		}
	}
	for _, cell := range cfg.coverage().Cells() {
		if !rows[row{cell.Point, cell.Outcome}] {
			t.Errorf("%s/%s is not in the plan", cell.Point, cell.Outcome)
		}
	}
	if killsBroker != len(brokerPoints) {
		t.Errorf("%d experiments kill a broker, want %d", killsBroker, len(brokerPoints))
	}
}

func TestSeedChoosesTheSame(t *testing.T) {
	e := Experiment{Point: fault.ConsumerEffect, Outcome: record.OutcomeKill, Broker: "nats", Seed: 7}
	a, b := e.choose(), e.choose()
	for i := range a.requests {
		a.requests[i].EventID = b.requests[i].EventID // not of the seed
	}
	if len(a.requests) != len(b.requests) || a.relays != b.relays || a.nth != b.nth || a.wait != b.wait || a.order != b.order {
		t.Errorf("%+v\n%+v", a, b)
	}
	e.Seed = 8
	if c := e.choose(); c.order == a.order {
		t.Error("another seed chooses the same")
	}
	if command := e.command(); !strings.Contains(command, "-only 'C3/kill'") || !strings.Contains(command, "-seed 8") {
		t.Error(command)
	}
}

func TestRoundStrikesOnceForAllThatArrive(t *testing.T) {
	strikes := make(chan struct{}, 3)
	r := newRound(3, func(context.Context) error { strikes <- struct{}{}; return nil })
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- r.arrive(t.Context()) }()
	}
	for arrived := 0; arrived < 2; time.Sleep(time.Millisecond) { // arrive tells nobody
		r.mu.Lock()
		arrived = r.arrived
		r.mu.Unlock()
	}
	if len(strikes) != 0 {
		t.Fatal("it struck before the third was there or had left")
	}
	r.leave(t.Context())
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(strikes) != 1 {
		t.Errorf("it struck %d times", len(strikes))
	}
}
