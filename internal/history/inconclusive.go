package history

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Plan is what a run must have shown for its verdicts to mean anything.
type Plan struct {
	Faults     []Fault // each must have happened; where it names events, to one of them at least
	Unknown    bool    // a writer was told Unknown
	Repeat     bool    // an event was published again
	LostLease  bool    // a mark was refused, since the lease was lost
	Redelivery bool    // a message was delivered again after its effect, and absorbed
	Error      bool    // a consumer's attempt failed, and was not taken for a duplicate
}

// Inconclusive says what of the plan did not happen. A run with any of it proves nothing,
// whatever its verdicts.
func Inconclusive(h History, p Plan) []string {
	var missing []string
	for _, planned := range p.Faults {
		if !slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.isOf(planned) }) {
			missing = append(missing, fmt.Sprintf("the fault %q at %s did not happen", planned.Outcome, planned.Point))
		}
	}
	for _, effect := range []struct {
		planned, seen bool
		text          string
	}{
		{p.Unknown, slices.ContainsFunc(h.Requests, func(r Request) bool { return r.Outcome == Unknown }),
			"no writer was told Unknown"},
		{p.Repeat, h.hasRepeat(), "no event was published again"},
		{p.LostLease, slices.ContainsFunc(h.Marks, func(m Mark) bool { return !m.Owned && !m.Changed }),
			"no mark was refused for a lost lease"},
		{p.Redelivery, h.hasDelivery("duplicate"), "no message was delivered again after its effect"},
		{p.Error, h.hasDelivery("error"), "no attempt of a consumer failed"},
	} {
		if effect.planned && !effect.seen {
			missing = append(missing, effect.text)
		}
	}
	return missing
}

func (f Fault) isOf(planned Fault) bool {
	return f.Point == planned.Point && f.Outcome == planned.Outcome &&
		(planned.Events == nil || f.Events == nil || slices.ContainsFunc(planned.Events, func(id uuid.UUID) bool { return slices.Contains(f.Events, id) }))
}

func (h History) hasRepeat() bool {
	seen := make(map[uuid.UUID]bool, len(h.Messages))
	for _, m := range h.Messages {
		if seen[m.EventID] {
			return true
		}
		seen[m.EventID] = true
	}
	return false
}

func (h History) hasDelivery(result string) bool {
	return slices.ContainsFunc(h.Deliveries, func(d Delivery) bool { return d.Result == result })
}
