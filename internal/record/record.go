// Package record has the record of a verification: what was broken, what was expected
// and what was seen. It names events by their ids; no payload, header or error text of a
// database is ever in it.
package record

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
)

// FileName is what a record is called unless its writer chooses another name.
const FileName = "repeatable-delivery-verification.yaml"

// Result is how an injection, or all of it, came out.
type Result string

// The results. A run is inconclusive when a fault, or what it was to cause, did not
// happen: it has shown nothing.
const (
	Pass         Result = "PASS"
	Fail         Result = "FAIL"
	Inconclusive Result = "INCONCLUSIVE"
)

// Record is a verification.
type Record struct {
	ExperimentID string             `yaml:"experiment_id"`
	StartedAt    time.Time          `yaml:"started_at"`
	Seconds      float64            `yaml:"seconds"`
	Command      string             `yaml:"command,omitempty"` // that runs it again
	Seed         string             `yaml:"seed,omitempty"`
	Schedules    int                `yaml:"schedules,omitempty"` // runs with faults, when there are more than the injections
	Versions     Versions           `yaml:"versions"`
	Result       Result             `yaml:"result"`
	Inconclusive []string           `yaml:"inconclusive,omitempty"` // what did not happen
	Injections   []Injection        `yaml:"injections"`
	Counts       Counts             `yaml:"counts"`
	Invariants   []InvariantVerdict `yaml:"invariants"`
	Coverage     *CoverageSummary   `yaml:"coverage,omitempty"`
}

// Injection is a fault that was brought about, and what it did.
type Injection struct {
	ID       string   `yaml:"id"`
	Title    string   `yaml:"title"`
	Point    string   `yaml:"point"`
	Outcome  string   `yaml:"outcome"`
	Database string   `yaml:"database,omitempty"`
	Broker   string   `yaml:"broker,omitempty"`
	Event    Event    `yaml:"event,omitempty"` // zero when there must be none
	Expected string   `yaml:"expected"`
	Observed []string `yaml:"observed"`
	Result   Result   `yaml:"result"`
}

// Event is what stays the same of an event through all repeats.
type Event struct {
	RequestID string    `yaml:"request_id,omitempty"`
	EventID   uuid.UUID `yaml:"event_id"`
	Aggregate string    `yaml:"aggregate"` // type and id, such as order/42
	Type      string    `yaml:"type"`
	Version   int64     `yaml:"version"`
}

// IsZero lets yaml leave out an event that isn't there.
func (e Event) IsZero() bool { return e == Event{} }

// InvariantVerdict is the verdict on an invariant over all runs.
type InvariantVerdict struct {
	ID       string         `yaml:"id"`
	Claim    string         `yaml:"claim"`
	Result   history.Result `yaml:"result"`
	Judged   int            `yaml:"judged_runs"`
	Failed   int            `yaml:"failed_runs"`
	Evidence []string       `yaml:"evidence,omitempty"` // of the first run that failed, else of the first judged
}

// AddRun adds a run's counts and verdicts, and says whether the run failed.
func (r *Record) AddRun(h history.History) (verdicts []history.Verdict, failed bool) {
	verdicts = history.Check(h)
	r.Counts.Add(CountsOf(h))
	r.AddVerdicts(verdicts)
	return verdicts, len(history.Failed(verdicts)) > 0
}

// AddVerdicts adds the verdicts of a run that was judged elsewhere.
func (r *Record) AddVerdicts(verdicts []history.Verdict) {
	for _, v := range verdicts {
		i := slices.IndexFunc(r.Invariants, func(have InvariantVerdict) bool { return have.ID == v.Invariant })
		if i < 0 {
			i = len(r.Invariants)
			r.Invariants = append(r.Invariants, InvariantVerdict{ID: v.Invariant, Claim: v.Claim, Result: history.NotJudged})
		}
		r.Invariants[i].add(v)
	}
}

func (i *InvariantVerdict) add(v history.Verdict) {
	switch {
	case v.Result == history.Fail && i.Failed == 0, v.Result == history.Pass && i.Judged == 0, i.Evidence == nil:
		i.Result, i.Evidence = v.Result, v.Evidence
	}
	if v.Result != history.NotJudged {
		i.Judged++
	}
	if v.Result == history.Fail {
		i.Failed++
	}
}

// Judge sets the result of it all: FAIL before INCONCLUSIVE before PASS. A required
// injection that isn't there makes it inconclusive.
func (r *Record) Judge() Result {
	for _, id := range r.MissingInjections() {
		text := NotMade(id)
		if !slices.Contains(r.Inconclusive, text) {
			r.Inconclusive = append(r.Inconclusive, text)
		}
	}
	r.Result = Pass
	if len(r.Inconclusive) > 0 || r.Coverage != nil && r.Coverage.Empty > 0 {
		r.Result = Inconclusive
	}
	for _, i := range r.Injections {
		if i.Result != Pass && r.Result != Fail {
			r.Result = i.Result
		}
	}
	for _, i := range r.Invariants {
		if i.Result == history.Fail {
			r.Result = Fail
		}
	}
	return r.Result
}
