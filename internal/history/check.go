package history

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// invariants are I1 to I13, in their order.
var invariants = []struct {
	name, claim string
	judge       func(*judge)
}{
	{"I1", "a business change and its event are committed together, or neither is", (*judge).together},
	{"I2", "every committed event is published, and the broker has it, when the deadline after healing is over", (*judge).published},
	{"I3", "nothing is published of what was not committed", (*judge).committed},
	{"I4", "an event has its effect once in each consumer", (*judge).once},
	{"I5", "what is acknowledged had its dedup row then, or is parked", (*judge).acknowledged},
	{"I6", "only the owner of a lease marks under it, and what is published or dead stays so", (*judge).marked},
	{"I7", "an event is published once, and once more at most for each fault that touched it", (*judge).repeated},
	{"I8", "what is published, and handled, is what was written", (*judge).identical},
	{"I9", "the events of an aggregate are published in their order, repeats aside", (*judge).ordered},
	{"I10", "a poisoned event does not hold up others beyond the bound", (*judge).prompt},
	{"I11", "every answer agrees with what is there in the end; unknown agrees with both", (*judge).answered},
	{"I12", "no private value is seen outside its columns and messages", (*judge).private},
	{"I13", "no goroutine, connection or transaction is left", (*judge).clean},
}

// Check holds a history against the invariants. It returns a verdict for each, in their
// order: NOT JUDGED where the history lacks what it takes.
func Check(h History) []Verdict {
	events := make(map[uuid.UUID]Event, len(h.Events))
	for _, e := range h.Events {
		events[e.ID] = e
	}
	verdicts := make([]Verdict, len(invariants))
	for i, inv := range invariants {
		j := &judge{History: h, events: events}
		inv.judge(j)
		verdicts[i] = Verdict{Invariant: inv.name, Claim: inv.claim, Result: j.result(), Evidence: j.evidence()}
	}
	return verdicts
}

// shownViolations is how many violations of an invariant are told one by one.
const shownViolations = 5

// judge is the trial of one invariant.
type judge struct {
	History
	events map[uuid.UUID]Event

	missing    []string // what the history lacks
	counts     []string
	violations []string
	violated   int
}

// observed reports whether a part of the history is there, and notes it when it isn't.
func (j *judge) observed(part string, there bool) bool {
	if !there {
		j.missing = append(j.missing, part)
	}
	return there
}

func (j *judge) count(n int, what string) { j.counts = append(j.counts, fmt.Sprintf("%d %s", n, what)) }

func (j *judge) violate(format string, args ...any) {
	j.violated++
	if len(j.violations) < shownViolations {
		j.violations = append(j.violations, fmt.Sprintf(format, args...))
	}
}

func (j *judge) result() Result {
	switch {
	case j.violated > 0:
		return Fail
	case len(j.missing) > 0:
		return NotJudged
	default:
		return Pass
	}
}

func (j *judge) evidence() []string {
	var lines []string
	for _, part := range j.missing {
		lines = append(lines, "not observed: "+part)
	}
	lines = append(lines, j.counts...)
	if j.violated > 0 {
		lines = append(lines, fmt.Sprintf("%d violations", j.violated))
	}
	return append(lines, j.violations...)
}

// pair is an event at a consumer.
type pair struct {
	event    uuid.UUID
	consumer string
}

func (p pair) String() string { return fmt.Sprintf("event %s at %s", p.event, p.consumer) }

// parked are the events that a consumer has set aside, now or at some time.
func (j *judge) parkedPairs() map[pair]bool {
	pairs := make(map[pair]bool)
	for _, p := range j.Parked {
		pairs[pair{p.EventID, p.Consumer}] = true
	}
	for _, d := range j.Deliveries {
		if d.Result == "parked" {
			pairs[pair{d.EventID, d.Consumer}] = true
		}
	}
	return pairs
}

// touching counts the faults that may have touched an event.
func (j *judge) touching(id uuid.UUID) int {
	n := 0
	for _, f := range j.Faults {
		if f.Events == nil || slices.Contains(f.Events, id) {
			n++
		}
	}
	return n
}

// Failed returns the verdicts that are FAIL.
func Failed(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Result != Fail })
}
