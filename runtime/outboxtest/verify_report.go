package outboxtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// hints say where to look when an invariant fails.
var hints = map[string]string{
	"I1":  "write the event with the transaction of the business change, neither on the pool nor in a transaction of its own",
	"I2":  "does NewStore make the store of this outbox, and does the broker take the event?",
	"I4":  "make the change with the tx that the handler is given, and return its error: what is written elsewhere is done again with each repeat",
	"I5":  "Handle must not return before the transaction with the dedup row is committed; what it returns without an error is acknowledged",
	"I8":  "nothing between outbox and handler may change a payload",
	"I11": "an Unknown outcome is not a failure: find out with the Reconcile function, or repeat under the same request id",
	"I12": "log neither payloads nor errors that quote them",
	"I13": "end what a handler or a writer starts before it returns",
}

// problems are what fails the test, each for a reader.
func (v *verification) problems() []string {
	var out []string
	told := make(map[string]bool)
	for n, i := range v.injections {
		r := v.rec.Injections[n]
		if r.Result == record.Pass {
			continue
		}
		text := fmt.Sprintf("%s: %s (%s)\n  expected: %s", r.Result, i.Title, i.ID, i.Expected)
		for _, w := range slices.Concat(i.problems, i.missing) {
			text += "\n  but: " + w
			name, _, _ := strings.Cut(w, ",")
			told[name] = true
			if hint := hints[name]; hint != "" {
				text += "\n    hint: " + hint
			}
		}
		out = append(out, text)
	}
	for _, i := range v.rec.Invariants {
		if i.Result == history.Fail && !told[i.ID] {
			text := fmt.Sprintf("%s: %s, %s\n  %s", i.Result, i.ID, i.Claim, strings.Join(i.Evidence, "\n  "))
			if hint := hints[i.ID]; hint != "" {
				text += "\n  hint: " + hint
			}
			out = append(out, text)
		}
	}
	for _, what := range v.rec.Inconclusive {
		out = append(out, fmt.Sprintf("%s: %s", record.Inconclusive, what))
	}
	return out
}
