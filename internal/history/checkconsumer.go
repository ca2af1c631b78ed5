package history

import "slices"

// once is I4.
func (j *judge) once() {
	if !j.observed("effects", j.Effects != nil) || !j.observed("outbox rows", j.Events != nil) {
		return
	}
	effects := make(map[pair]int, len(j.Effects))
	applied := 0
	for _, e := range j.Effects {
		p := pair{e.EventID, e.Consumer}
		effects[p] += e.Count
		applied += e.Count
	}
	excused := j.parkedPairs()
	for _, d := range j.Deliveries {
		if d.Result == "skipped" { // its aggregate was further already
			excused[pair{d.EventID, d.Consumer}] = true
		}
	}
	for _, e := range j.Effects {
		p := pair{e.EventID, e.Consumer}
		switch n := effects[p]; {
		case n > 1:
			j.violate("%v had its effect %d times", p, n)
			effects[p] = 1 // told once
		case n > 0 && j.events[e.EventID].ID != e.EventID:
			j.violate("%v had an effect, and the event is not committed", p)
		}
	}
	for _, d := range j.Dedup {
		p := pair{d.EventID, d.Consumer}
		if effects[p] == 0 && !excused[p] {
			j.violate("%v has its dedup row and no effect", p)
			effects[p] = 1
		}
	}
	for _, e := range j.Events {
		for _, consumer := range j.Consumers {
			p := pair{e.ID, consumer}
			if e.Status == StatusPublished && effects[p] == 0 && !excused[p] {
				j.violate("%v had no effect", p)
			}
		}
	}
	j.count(applied, "effects")
	j.count(len(j.Dedup), "dedup rows")
	j.count(len(j.Parked), "parked events")
}

// acknowledged is I5.
func (j *judge) acknowledged() {
	if !j.observed("acknowledgements", j.Acks != nil) {
		return
	}
	parked := j.parkedPairs()
	for _, a := range j.Acks {
		if p := (pair{a.EventID, a.Consumer}); !a.Dedup && !parked[p] {
			j.violate("%v was acknowledged without a dedup row", p)
		}
	}
	j.count(len(j.Acks), "acknowledgements")
}

// private is I12.
func (j *judge) private() {
	if !j.observed("a search for private values", j.Canaries != nil) {
		return
	}
	for _, place := range j.Canaries {
		j.violate("a private value was seen in %s", place)
	}
}

// clean is I13.
func (j *judge) clean() {
	if !j.observed("what is left at the end", j.Leaks != nil) {
		return
	}
	for _, left := range []struct {
		n    int
		what string
	}{
		{j.Leaks.Goroutines, "goroutines"},
		{j.Leaks.Connections, "connections"},
		{j.Leaks.Transactions, "transactions"},
	} {
		if slices.Contains(j.Leaks.NotCounted, left.what) {
			j.counts = append(j.counts, "not counted: "+left.what)
			continue
		}
		j.count(left.n, left.what+" left")
		if left.n > 0 {
			j.violate("%d %s are left", left.n, left.what)
		}
	}
}
