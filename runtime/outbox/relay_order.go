package outbox

// aggregate names what events are in order within.
type aggregate struct{ kind, id string }

func aggregateOf(e *Envelope) aggregate { return aggregate{e.AggregateType, e.AggregateID} }

// holdsBack reports whether a message with this result holds back the later ones
// of its aggregate: it may yet be published, which would then be after them.
func holdsBack(result error) bool {
	return result != nil && FailureKindOf(result) != FailureRejected
}

// outOfOrder counts the messages that were confirmed though an earlier one of
// their aggregate may yet be published, and returns the index of the first.
func outOfOrder(messages []Envelope, results []error) (count, first int) {
	var open map[aggregate]struct{} // most calls need none
	for i, result := range results {
		switch {
		case holdsBack(result):
			if open == nil {
				open = map[aggregate]struct{}{}
			}
			open[aggregateOf(&messages[i])] = struct{}{}
		case result == nil && open != nil:
			if _, late := open[aggregateOf(&messages[i])]; !late {
				continue
			}
			if count == 0 {
				first = i
			}
			count++
		}
	}
	return count, first
}
