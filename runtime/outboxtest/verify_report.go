package outboxtest

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// hints say where to look when an invariant fails.
var hints = map[string]string{
	"I1": "write the event with the transaction of the business change, neither on the pool nor in a transaction of its own",
	"I2": "does NewStore make the store of this outbox, and does the broker take the event?",
	"I3": "let the relay alone publish: nothing of yours may hand the broker an event before its transaction is committed",
	"I4": "make the change with the tx that the handler is given, and return its error: what is written elsewhere is done again with each repeat",
	"I5": "Handle must not return before the transaction with the dedup row is committed; what it returns without an error is acknowledged",
	"I6": "use the generated store as it is, and change no row of the outbox yourself: a mark must name the lease that it was claimed under",
	"I7": "does Publisher send an event again by itself, or is something beside the relays of Verify publishing from this outbox?",
	"I8": "nothing between outbox and handler may change a payload",
	"I9": "change the aggregate's own row in the transaction that writes its event, and let Publisher keep the order of what it is given",
	"I11": "return what outbox.InTx returns: Committed when COMMIT was answered, RolledBack when nothing can be left, and otherwise Unknown," +
		" which is no failure: find out with the Reconcile function, or repeat under the same request id",
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
		hinted := map[string]bool{"": true}
		for _, p := range i.problems {
			told[p.invariant] = true
			text += "\n  but: " + p.text
			if p.detail != "" {
				text += "\n    " + p.detail
			}
			if hint := cmp.Or(p.hint, hints[p.invariant]); !hinted[hint] {
				hinted[hint] = true
				text += "\n    hint: " + hint
			}
		}
		for _, m := range i.missing {
			text += "\n  but: " + m
		}
		out = append(out, text)
	}
	for _, i := range v.rec.Invariants {
		if i.Result == history.Fail && !told[i.ID] {
			text := fmt.Sprintf("%s: %s, %s\n  %s", i.Result, i.ID, i.Claim, strings.Join(i.Evidence, "\n  "))
			if i.ID == "I13" {
				text += strings.Join(append([]string{""}, v.left...), "\n  left: ")
			}
			if hint := hints[i.ID]; hint != "" {
				text += "\n  hint: " + hint
			}
			out = append(out, text)
		}
	}
	if len(v.untried) > 0 { // the record has a line for each
		out = append(out, fmt.Sprintf("%s: not everything came to its end after %s, so that the rest was not tried: %s",
			record.Inconclusive, v.injections[len(v.injections)-1].ID, strings.Join(v.untried, ", ")))
	}
	return out
}
