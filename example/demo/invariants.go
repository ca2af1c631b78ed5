package main

import (
	"fmt"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// verdict is what became of one claim.
type verdict struct {
	claim    string
	figures  string   // that a passed claim rests on
	problems []string // none when it passed
}

// want notes a problem unless ok.
func (v *verdict) want(ok bool, format string, args ...any) {
	if !ok {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

// conclusive notes that nothing was shown when what the claim is about didn't happen.
func (v *verdict) conclusive(ok bool, format string, args ...any) {
	v.want(ok, "inconclusive: "+format, args...)
}

// judge compares what happened with what is promised. It takes facts only, so
// that each claim can be seen to fail (invariants_test.go).
func judge(f *facts) []verdict {
	return []verdict{
		judgeOrders(f),
		judgeRepeats(f),
		judgeRollbacks(f),
		judgeEvents(f),
		judgePublished(f),
		judgeOrder(f),
		judgeKilledRelay(f),
		judgeLostLease(f),
		judgeKilledConsumer(f),
		judgeDedup(f),
		judgeJobs(f),
		judgeSales(f),
		judgeForeignKey(f),
		judgeParked(f),
		judgeAttempts(f),
		judgePurge(f),
	}
}

func judgeOrders(f *facts) verdict {
	v := verdict{claim: "every order that a client was told of is there, and no other"}
	stored := map[requestKey]orderRow{}
	for _, o := range f.orders {
		_, twice := stored[o.Key]
		v.want(!twice, "request %v has two orders", o.Key)
		stored[o.Key] = o
		_, told := f.answers.orders[o.Key]
		v.want(told, "order %d of %v: no client was told of it", o.ID, o.Key)
		told = f.answers.cancels[o.ID] > 0
		v.want(told == (o.Status == "cancelled"), "order %d is %s, a client was told that it's cancelled: %t", o.ID, o.Status, told)
	}
	for key, answer := range f.answers.orders {
		order, ok := stored[key]
		v.want(ok && order.ID == answer.ID && order.EventID == answer.EventID, "order %d of %v isn't there as its client was told", answer.ID, key)
	}
	v.conclusive(len(f.orders) > 0, "no order was taken")
	v.figures = number(len(f.orders))
	return v
}

func judgeRepeats(f *facts) verdict {
	v := verdict{claim: "every repeated request was answered with the order of the first"}
	v.problems = append(v.problems, f.answers.contradictions...)
	v.conclusive(f.answers.repeats > 0, "no request was repeated")
	v.figures = number(f.answers.repeats)
	return v
}

func judgeRollbacks(f *facts) verdict {
	v := verdict{claim: "what was rolled back left no order and no event"}
	orders := map[int64]bool{}
	for _, o := range f.orders {
		orders[o.ID] = true
		v.want(f.answers.refusals[o.Key] == 0, "request %v was refused, and has the order %d", o.Key, o.ID)
	}
	for _, e := range f.events {
		v.want(orders[e.OrderID], "event %s is of the order %d, which isn't there", e.ID, e.OrderID)
	}
	v.conclusive(len(f.answers.refusals) > 0, "no order was rolled back")
	v.figures = count(len(f.answers.refusals), "request")
	return v
}

func judgeEvents(f *facts) verdict {
	v := verdict{claim: "every order has one order.accepted, every cancellation one order.cancelled"}
	accepted, cancelled := map[int64][]string{}, map[int64][]string{}
	for _, e := range f.events {
		switch e.Type {
		case orderevents.EventTypeOrderAccepted:
			accepted[e.OrderID] = append(accepted[e.OrderID], e.ID)
		case orderevents.EventTypeOrderCancelled:
			cancelled[e.OrderID] = append(cancelled[e.OrderID], e.ID)
		default:
			v.want(false, "event %s has the unknown type %s", e.ID, e.Type)
		}
	}
	cancellations := 0
	for _, o := range f.orders {
		ids := accepted[o.ID]
		v.want(len(ids) == 1 && ids[0] == o.EventID, "order %d has the acceptance event %s, and in the outbox %v", o.ID, o.EventID, ids)
		want := 0
		if o.Status == "cancelled" {
			want = 1
			cancellations++
		}
		v.want(len(cancelled[o.ID]) == want, "order %d is %s, and has %d cancellation events", o.ID, o.Status, len(cancelled[o.ID]))
		delete(accepted, o.ID)
		delete(cancelled, o.ID)
	}
	v.want(len(accepted)+len(cancelled) == 0, "%d events are of no order", len(accepted)+len(cancelled))
	v.conclusive(cancellations > 0, "no order was cancelled")
	v.figures = fmt.Sprintf("%s and %s", number(len(f.orders)), number(cancellations))
	return v
}

func judgePublished(f *facts) verdict {
	v := verdict{claim: "every event is PUBLISHED and in the stream, and nothing else is"}
	for _, m := range f.missing {
		v.want(false, "waited in vain for: %s", m)
	}
	types := map[string]string{}
	for _, m := range f.stream {
		types[m.EventID] = m.Type
	}
	for _, e := range f.events {
		v.want(e.State == "PUBLISHED", "event %s is %s", e.ID, e.State)
		v.want(types[e.ID] == e.Type, "event %s of type %s is in the stream with type %q", e.ID, e.Type, types[e.ID])
		delete(types, e.ID)
	}
	for id := range types {
		v.want(false, "the stream has an event %q that isn't in the outbox", id)
	}
	v.conclusive(len(f.events) > 0, "there was no event")
	v.figures = fmt.Sprintf("%s in %s", count(len(f.events), "event"), count(len(f.stream), "message"))
	return v
}

// judgeOrder looks at the first copy of each event: a repeat may come behind newer ones.
func judgeOrder(f *facts) verdict {
	v := verdict{claim: "in the stream each order's events are in the order of its versions, but for repeats"}
	seen := map[string]bool{}
	last := map[string]streamMessage{}
	followers := 0
	for _, m := range f.stream {
		if seen[m.EventID] {
			continue
		}
		seen[m.EventID] = true
		before, follows := last[m.Order]
		last[m.Order] = m
		if follows {
			followers++
			v.want(before.Version < m.Version, "order %s: %s of version %d comes behind %s of version %d",
				m.Order, m.Type, m.Version, before.Type, before.Version)
		}
		v.want(follows == (m.Type != orderevents.EventTypeOrderAccepted), "order %s: %s comes behind %q", m.Order, m.Type, before.Type)
	}
	v.conclusive(followers > 0, "no order has a second event in the stream")
	v.figures = count(followers, "order") + " with two events"
	return v
}

func judgePurge(f *facts) verdict {
	v := verdict{claim: "an event and dedup rows past their retention were purged"}
	v.conclusive(f.old.before > 0, "nothing was old")
	v.want(f.old.after == 0, "%d of %d old rows are still there", f.old.after, f.old.before)
	v.figures = count(f.old.before, "row")
	return v
}

func judgeDedup(f *facts) verdict {
	v := verdict{claim: "each consumer has one dedup row an event"}
	want := map[string]map[string]bool{}
	for _, name := range consumerNames {
		want[name] = map[string]bool{}
		for _, e := range f.events {
			if handles(name, e.Type) {
				want[name][e.ID] = true
			}
		}
	}
	for name, ids := range f.dedup {
		seen := map[string]bool{}
		for _, id := range ids {
			v.want(!seen[id], "%s has two rows of event %s", name, id)
			v.want(want[name][id], "%s has a row of %s, which is no event of its own", name, id)
			seen[id] = true
		}
	}
	rows := 0
	for name, ids := range want {
		n := len(f.dedup[name])
		v.want(n == len(ids), "%s has %d rows for %d events", name, n, len(ids))
		rows += n
	}
	v.figures = fmt.Sprintf("%s of %s", count(rows, "row"), count(len(want), "consumer"))
	return v
}

// handles tells which events go to which consumer, as events.yaml says.
func handles(consumer, eventType string) bool {
	return consumer == orderevents.ConsumerNameNotificationPlanner || eventType == orderevents.EventTypeOrderAccepted
}
