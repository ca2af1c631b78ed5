package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func (l *linter) events() {
	handled := map[*spec.Event]bool{}
	for _, c := range l.model.Consumers {
		for _, e := range c.Handles {
			handled[e] = true
		}
	}
	for _, e := range l.model.Events {
		name := e.Name.Text
		newest := e.Newest()
		if e.Deprecated != "" {
			continue
		}
		l.event(e, handled[e])
		// Older versions are frozen, names and all.
		l.structure(subject{name}, e.Name, newest.Fields, []*spec.Field{newest.ID, newest.AggregateVersion})
	}
}

func (l *linter) event(e *spec.Event, handled bool) {
	name := e.Name.Text
	if !handled {
		l.report("event-unhandled", subject{name}, e.Name, fmt.Sprintf("no consumer handles the event %q", name),
			"add it to the handles of a consumer; if only other services read it, list it under lint.ignore.event-unhandled")
	}
	if e.Doc == "" {
		l.report("doc-missing", subject{name}, e.Name, fmt.Sprintf("the event %q has no doc", name),
			"say when it is written, and what is true by then")
	}
	if !isPast(name) {
		l.report("event-not-past", subject{name}, e.Name, fmt.Sprintf("the event %q isn't named after something that has happened", name),
			"end the name with a past participle, as in order.accepted")
	}
}

func (l *linter) typeDoc(t *spec.Named) {
	if t.Doc == "" {
		l.report("doc-missing", subject{t.Name.Text}, t.Name, fmt.Sprintf("the type %q has no doc", t.Name.Text), "say what it stands for, and in which unit or form")
	}
}

// isPast looks for a past participle in the last part of an event's name, the one
// after the last dot: order.sent-to-customer is one too.
func isPast(event string) bool {
	last := event[strings.LastIndexByte(event, '.')+1:]
	return slices.ContainsFunc(strings.Split(last, "-"), isParticiple)
}

func isParticiple(word string) bool {
	for _, prefix := range []string{"", "re", "un", "over", "under", "pre", "mis", "out"} {
		if stem, ok := strings.CutPrefix(word, prefix); ok && irregular[stem] {
			return true
		}
	}
	return len(word) > 4 && strings.HasSuffix(word, "ed") && !present[word]
}

// present are words that end like a participle and are none.
var present = words("speed breed bleed proceed succeed exceed embed naked indeed hundred sacred shred")

// irregular are the participles that don't end in -ed.
var irregular = words(`arisen awoken become begun bent bet bid bitten bled born borne bought bound bred broadcast broken brought
	built burst cast caught chosen come cost cut dealt done drawn driven eaten fallen fed felt fled flown forbidden
	forecast foreseen forgiven forgotten fought found frozen given gone got gotten grown heard held hidden hit hung
	hurt kept known laid lain led left lent let lit lost made meant met mown overcome paid proven put quit read ridden
	risen run said seen sent set sewn shaken shed shipped shot shown shut sold sought spent split spoken spread
	stolen stood stopped stuck struck sunk sworn swept taken taught thrown told torn understood undertaken upheld upset
	withdrawn withheld withstood woken won worn wound written`)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(s) {
		set[word] = true
	}
	return set
}
