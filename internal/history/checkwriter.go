package history

import "github.com/google/uuid"

// together is I1. It takes one business row for a request, too: a request that was
// repeated must not have been done twice.
func (j *judge) together() {
	if !j.observed("business rows", j.Business != nil) || !j.observed("outbox rows", j.Events != nil) {
		return
	}
	j.count(len(j.Business), "business rows")
	j.count(len(j.Events), "outbox rows")
	business := make(map[uuid.UUID]bool, len(j.Business))
	requests := make(map[string]bool, len(j.Business))
	for _, b := range j.Business {
		if _, ok := j.events[b.EventID]; !ok {
			j.violate("request %s is committed without its event %s", b.RequestID, b.EventID)
		}
		if requests[b.RequestID] {
			j.violate("request %s has more than one business row", b.RequestID)
		}
		business[b.EventID], requests[b.RequestID] = true, true
	}
	for _, e := range j.Events {
		if !business[e.ID] {
			j.violate("event %s is committed without its business row", e.ID)
		}
	}
}

// answered is I11.
func (j *judge) answered() {
	judgeRequests := j.Requests != nil && j.Business != nil
	judgeAnswers := j.Answers != nil && j.Events != nil
	if !judgeRequests && !judgeAnswers {
		j.observed("requests with business rows, or lookups with outbox rows", false)
		return
	}
	if judgeRequests {
		j.requests()
	}
	if judgeAnswers {
		j.lookups()
	}
}

// try is what is the same in all tries that could have written the same event.
type try struct {
	request string
	event   uuid.UUID
}

func (j *judge) requests() {
	rows := make(map[try]bool, len(j.Business))
	requests := make(map[string]bool, len(j.Business))
	for _, b := range j.Business {
		rows[try{b.RequestID, b.EventID}], requests[b.RequestID] = true, true
	}
	mayHave := make(map[try]bool) // some try with the event may have committed
	told := make(map[Outcome]int)
	for _, r := range j.Requests {
		told[r.Outcome]++
		if r.Outcome == Committed || r.Outcome == Unknown && (r.Reconciled == nil || *r.Reconciled) {
			mayHave[try{r.ID, r.EventID}] = true
		}
	}
	for _, o := range []Outcome{Committed, RolledBack, Unknown} {
		j.count(told[o], "writers were told "+string(o))
	}
	for _, r := range j.Requests {
		key := try{r.ID, r.EventID}
		switch {
		case r.Outcome == Committed && !rows[key]:
			j.violate("request %s was answered committed, and event %s has no business row", r.ID, r.EventID)
		case r.Outcome == RolledBack && rows[key] && !mayHave[key]:
			j.violate("request %s was answered rolled back, and the business row of event %s is there", r.ID, r.EventID)
		case r.Outcome == Unknown && r.Reconciled != nil && *r.Reconciled && !requests[r.ID]:
			j.violate("request %s was found by Reconcile, and has no business row", r.ID)
		case r.Outcome == Unknown && r.Reconciled != nil && !*r.Reconciled && rows[key] && !mayHave[key]:
			j.violate("request %s was absent for Reconcile, and the business row of event %s is there", r.ID, r.EventID)
		}
	}
}

// lookups holds what lookups said against the rows in the end. Dead is final here: an
// experiment that redrives asks for no state between burial and redrive.
func (j *judge) lookups() {
	j.count(len(j.Answers), "lookups")
	for _, a := range j.Answers {
		final := j.events[a.EventID].Status
		terminal := a.State == StatusPublished || a.State == StatusDead
		switch {
		case a.State == final:
		case a.Final, terminal, a.State != "" && final == "":
			j.violate("a lookup of event %s said %q, and in the end it is %q", a.EventID, a.State, final)
		}
	}
}
