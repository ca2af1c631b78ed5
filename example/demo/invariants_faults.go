package main

import (
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The claims about those that were killed, and about what errors and repeats led to.

func judgeKilledRelay(f *facts) verdict {
	v := verdict{claim: "the relay killed between confirm and mark: its events were published again"}
	death := f.relayDeath
	v.conclusive(death.bySIGKILL && len(death.batch) > 0, "no relay was killed at that point")
	copies := distinct(f.stream)
	for _, e := range death.batch {
		v.conclusive(e.state != "PUBLISHED", "event %s was marked before the kill", e.id)
		v.want(e.heldByVictim || e.state == "PUBLISHED", "event %s was %s, but not under the dead relay's lease", e.id, e.state)
		v.want(copies[e.id] >= 2, "event %s is in the stream %d times: confirmed once, it should have come again", e.id, copies[e.id])
	}
	v.conclusive(len(f.stream) > len(f.events), "the stream has no more messages than there are events")
	v.figures = fmt.Sprintf("%s, %s in the stream", count(len(death.batch), "event"), count(len(f.stream)-len(copies), "repeat"))
	return v
}

func judgeLostLease(f *facts) verdict {
	v := verdict{claim: "no other relay marked them before the end of the dead one's lease"}
	published := map[string]time.Time{}
	for _, e := range f.events {
		published[e.ID] = e.Published
	}
	var last time.Duration
	for _, e := range f.relayDeath.batch {
		after := published[e.id].Sub(e.leaseUntil)
		v.want(after >= 0, "event %s was marked %v before the end of the lease", e.id, -after)
		last = max(last, after)
	}
	v.conclusive(len(f.relayDeath.batch) > 0, "no relay left anything behind")
	v.figures = fmt.Sprintf("all of them within %.1f s after it", last.Seconds())
	return v
}

// judgeKilledConsumer counts. Every message of the stream was acknowledged in
// the end, each after a call that applied it or found it applied. The message that
// the dead consumer had committed is one more such call: if there is none more,
// then its redelivery was not absorbed.
func judgeKilledConsumer(f *facts) verdict {
	v := verdict{claim: "the consumer killed between commit and acknowledgement: redelivered, and absorbed"}
	death := f.consumerDeath
	v.conclusive(death.bySIGKILL && death.event != "", "no consumer was killed at that point")
	v.conclusive(death.dedupRows == 1 && death.jobs == 1,
		"right after the kill event %s had %d dedup rows and %d jobs: it wasn't committed", death.event, death.dedupRows, death.jobs)
	planner := f.consumers[orderevents.ConsumerNameNotificationPlanner]
	repeats := int64(len(f.stream) - len(distinct(f.stream)))
	v.conclusive(planner.Duplicates > 0, "no duplicate was absorbed")
	v.want(planner.Duplicates > repeats, "%d duplicates absorbed, and the stream alone holds %d repeats", planner.Duplicates, repeats)
	jobs := 0
	for _, j := range f.jobs {
		if j.EventID == death.event {
			jobs++
		}
	}
	v.want(jobs == 1, "its event %s has %d jobs", death.event, jobs)
	v.figures = fmt.Sprintf("%s: %s from the stream's repeats, %s from redeliveries",
		count(int(planner.Duplicates), "duplicate"), number(repeats), number(planner.Duplicates-repeats))
	return v
}

func judgeJobs(f *facts) verdict {
	v := verdict{claim: "every event has exactly one notification job"}
	jobs := map[string][]jobRow{}
	for _, j := range f.jobs {
		jobs[j.EventID] = append(jobs[j.EventID], j)
	}
	kinds := map[string]string{
		orderevents.EventTypeOrderAccepted:  "order-accepted",
		orderevents.EventTypeOrderCancelled: "order-cancelled",
	}
	for _, e := range f.events {
		ofEvent := jobs[e.ID]
		v.want(len(ofEvent) == 1, "event %s has %d jobs", e.ID, len(ofEvent))
		for _, j := range ofEvent {
			v.want(j.Tenant == e.Tenant && j.Kind == kinds[e.Type], "the job of event %s (%s, tenant %d) is %s of tenant %d", e.ID, e.Type, e.Tenant, j.Kind, j.Tenant)
		}
		delete(jobs, e.ID)
	}
	v.want(len(jobs) == 0, "%d jobs are of no event", len(jobs))
	v.conclusive(len(f.jobs) > 0, "no job was planned")
	v.figures = number(len(f.jobs))
	return v
}

func judgeSales(f *facts) verdict {
	v := verdict{claim: "the sales report has every order once, to the last cent"}
	days := map[string]string{}
	for _, e := range f.events {
		days[e.ID] = e.Day
	}
	want := map[salesKey]salesRow{}
	for _, o := range f.orders {
		key := salesKey{Tenant: o.Key.Tenant, Day: days[o.EventID], Currency: o.Currency}
		sum := want[key]
		want[key] = salesRow{Orders: sum.Orders + 1, Total: sum.Total.Add(o.Total)}
	}
	for key, sum := range want {
		have := f.sales[key]
		v.want(have.Orders == sum.Orders && have.Total.Equal(sum.Total), "%v: the report says %d orders and %s, there are %d and %s",
			key, have.Orders, have.Total, sum.Orders, sum.Total)
	}
	for key := range f.sales {
		_, ok := want[key]
		v.want(ok, "%v: the report has a sum of no order", key)
	}
	v.conclusive(len(want) > 0, "nothing was sold")
	v.figures = fmt.Sprintf("%s orders in %d sums", number(len(f.orders)), len(want))
	return v
}

func judgeForeignKey(f *facts) verdict {
	v := verdict{claim: "a foreign-key error is no duplicate: nothing was kept, and all was applied in the end"}
	v.conclusive(f.foreignKeyErrors > 0 && f.blocked.published > 0, "no event broke the foreign key")
	v.want(f.blocked.dedupRows == 0, "%d dedup rows of tenant %d while its effects were impossible", f.blocked.dedupRows, blockedTenant)
	v.want(f.blocked.jobs == 0, "%d jobs of tenant %d while they were impossible", f.blocked.jobs, blockedTenant)
	planner := f.consumers[orderevents.ConsumerNameNotificationPlanner]
	v.want(planner.Errors >= f.foreignKeyErrors, "%d foreign-key errors in the logs, and %d errors counted", f.foreignKeyErrors, planner.Errors)
	events, jobs := 0, 0
	for _, e := range f.events {
		if e.Tenant == blockedTenant {
			events++
		}
	}
	for _, j := range f.jobs {
		if j.Tenant == blockedTenant {
			jobs++
		}
	}
	v.want(events == jobs, "tenant %d has %d events and %d jobs", blockedTenant, events, jobs)
	v.figures = fmt.Sprintf("%s errors, %s events", number(f.foreignKeyErrors), number(events))
	return v
}

// judgeParked is about what the planner gave up on while the channel was missing.
func judgeParked(f *facts) verdict {
	v := verdict{claim: "an event that failed as often as it may was parked, and applied once by its redrive"}
	v.conclusive(len(f.parked) > 0, "no event was parked")
	jobs := map[string]int{}
	for _, j := range f.jobs {
		jobs[j.EventID]++
	}
	for _, p := range f.parked {
		v.want(p.kind == "attempts" && p.attempts > 1, "event %s was parked for %s after %d attempts", p.event, p.kind, p.attempts)
		v.want(p.redriven == outbox.Applied, "event %s: its redrive ended as %v", p.event, p.redriven)
		v.want(jobs[p.event] == 1, "event %s has %d jobs", p.event, jobs[p.event])
	}
	v.figures = count(len(f.parked), "event") + " parked and redriven"
	return v
}

func judgeAttempts(f *facts) verdict {
	v := verdict{claim: "every attempt was applied, a duplicate, parked or an error; there is a dedup row for each applied"}
	var attempts int64
	for _, name := range consumerNames {
		c := f.consumers[name]
		v.want(c.Reported, "%s did not report its figures at its stop", name)
		v.want(c.Attempts == c.Applied+c.Duplicates+c.Parked+c.Errors, "%s: %d attempts, but %d applied, %d duplicates, %d parked and %d errors",
			name, c.Attempts, c.Applied, c.Duplicates, c.Parked, c.Errors)
		v.want(c.Applied == int64(len(f.dedup[name])), "%s: %d applied, and %d dedup rows", name, c.Applied, len(f.dedup[name]))
		attempts += c.Attempts
	}
	v.figures = number(attempts) + " attempts"
	return v
}
