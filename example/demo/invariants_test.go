package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	planner = orderevents.ConsumerNameNotificationPlanner
	report  = orderevents.ConsumerNameSalesReport
)

// healthy is a small run in which everything went as it should: two orders, the
// first cancelled, the second of the tenant that got its channel late; one
// refused request; event a2 published twice; a1 redelivered to the planner.
func healthy() *facts {
	k1, k2 := requestKey{1, "r1"}, requestKey{blockedTenant, "r2"}
	a := newAnswers()
	a.accepted(k1, 1, "a1", true)
	a.accepted(k1, 1, "a1", false)
	a.accepted(k2, 2, "a2", true)
	a.refused(requestKey{1, "r3"})
	a.cancelled(1)
	ten := decimal.NewFromInt(10)
	leaseEnd := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &facts{
		answers: a,
		orders: []orderRow{
			{ID: 1, Key: k1, Status: "cancelled", Currency: "EUR", Total: ten, EventID: "a1"},
			{ID: 2, Key: k2, Status: "accepted", Currency: "EUR", Total: ten, EventID: "a2"},
		},
		events: []eventRow{
			{ID: "a1", Type: "order.accepted", OrderID: 1, Tenant: 1, State: "PUBLISHED", Day: "2026-01-02"},
			{ID: "a2", Type: "order.accepted", OrderID: 2, Tenant: blockedTenant, State: "PUBLISHED", Published: leaseEnd, Day: "2026-01-02"},
			{ID: "c1", Type: "order.cancelled", OrderID: 1, Tenant: 1, State: "PUBLISHED"},
		},
		stream: []streamMessage{
			{"a1", "order.accepted", "1", 1}, {"a2", "order.accepted", "2", 1}, {"c1", "order.cancelled", "1", 2}, {"a2", "order.accepted", "2", 1},
		},
		jobs: []jobRow{
			{"a1", 1, "order-accepted"}, {"c1", 1, "order-cancelled"}, {"a2", blockedTenant, "order-accepted"},
		},
		dedup: map[string][]string{planner: {"a1", "c1", "a2"}, report: {"a1", "a2"}},
		sales: map[salesKey]salesRow{
			{1, "2026-01-02", "EUR"}:             {1, ten},
			{blockedTenant, "2026-01-02", "EUR"}: {1, ten},
		},
		consumers: map[string]*consumerFacts{
			planner: {outbox.ConsumerStats{Attempts: 8, Applied: 3, Duplicates: 2, Parked: 1, Errors: 2}, true},
			report:  {outbox.ConsumerStats{Attempts: 3, Applied: 2, Duplicates: 1}, true},
		},
		relayDeath:       relayDeath{bySIGKILL: true, batch: []leftEvent{{id: "a2", state: "PUBLISHING", heldByVictim: true, leaseUntil: leaseEnd}}},
		consumerDeath:    consumerDeath{bySIGKILL: true, event: "a1", dedupRows: 1, jobs: 1},
		blocked:          blockedTenantFacts{published: 1},
		foreignKeyErrors: 2,
		parked:           []parkedFacts{{event: "a2", kind: "attempts", attempts: 4, redriven: outbox.Applied}},
		old:              oldRows{before: 3},
	}
}

func TestHealthyFactsPass(t *testing.T) {
	for _, v := range judge(healthy()) {
		if len(v.problems) > 0 {
			t.Errorf("%s: %v", v.claim, v.problems)
		}
	}
}

// Each line breaks one fact, and names words of a claim that must then fail.
func TestBrokenFactsFail(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(*facts)
		claim   string
	}{
		"an order got lost":             {func(f *facts) { f.orders = f.orders[:1] }, "every order that a client was told of"},
		"an order nobody knows":         {func(f *facts) { delete(f.answers.orders, requestKey{1, "r1"}) }, "every order that a client was told of"},
		"a request with two orders":     {func(f *facts) { f.orders[1].Key = f.orders[0].Key }, "every order that a client was told of"},
		"a cancellation got lost":       {func(f *facts) { f.orders[0].Status = "accepted" }, "every order that a client was told of"},
		"a repeat made another order":   {func(f *facts) { f.answers.accepted(requestKey{1, "r1"}, 9, "a9", false) }, "every repeated request"},
		"a repeat was told it's new":    {func(f *facts) { f.answers.accepted(requestKey{1, "r1"}, 1, "a1", true) }, "every repeated request"},
		"no repeats":                    {func(f *facts) { f.answers.repeats = 0 }, "every repeated request"},
		"a refused request left both":   {func(f *facts) { f.answers.refused(requestKey{1, "r1"}) }, "what was rolled back"},
		"a refused one left an event":   {func(f *facts) { f.events[0].OrderID = 77 }, "what was rolled back"},
		"nothing was refused":           {func(f *facts) { clear(f.answers.refusals) }, "what was rolled back"},
		"an event row is gone":          {func(f *facts) { f.events = f.events[1:] }, "every order has one order.accepted"},
		"an order has two events":       {func(f *facts) { f.events[1].OrderID = 1 }, "every order has one order.accepted"},
		"a cancellation has no event":   {func(f *facts) { f.events = f.events[:2] }, "every order has one order.accepted"},
		"an event of another id":        {func(f *facts) { f.events[0].ID = "zz" }, "every order has one order.accepted"},
		"an event is dead":              {func(f *facts) { f.events[0].State = "DEAD" }, "every event is PUBLISHED"},
		"an event isn't in the stream":  {func(f *facts) { f.stream = f.stream[1:] }, "every event is PUBLISHED"},
		"a stranger in the stream":      {func(f *facts) { f.stream[0].EventID = "zz" }, "every event is PUBLISHED"},
		"a message of another type":     {func(f *facts) { f.stream[0].Type = "order.cancelled" }, "every event is PUBLISHED"},
		"waited in vain":                {func(f *facts) { f.missing = []string{"1 message"} }, "every event is PUBLISHED"},
		"the relay wasn't killed":       {func(f *facts) { f.relayDeath.bySIGKILL = false }, "the relay killed"},
		"its batch was marked":          {func(f *facts) { f.relayDeath.batch[0].state = "PUBLISHED" }, "the relay killed"},
		"its batch was another's":       {func(f *facts) { f.relayDeath.batch[0].heldByVictim = false }, "the relay killed"},
		"its batch came once":           {func(f *facts) { f.stream = f.stream[:3] }, "the relay killed"},
		"marked within its lease":       {func(f *facts) { f.events[1].Published = f.events[1].Published.Add(-1) }, "no other relay marked"},
		"its batch wasn't marked":       {func(f *facts) { f.events[1].Published = time.Time{} }, "no other relay marked"},
		"it left nothing":               {func(f *facts) { f.relayDeath.batch = nil }, "no other relay marked"},
		"cancelled before accepted":     {func(f *facts) { f.stream[0], f.stream[2] = f.stream[2], f.stream[0] }, "in the stream each order"},
		"a version comes back":          {func(f *facts) { f.stream[2].Version = 1 }, "in the stream each order"},
		"accepted twice":                {func(f *facts) { f.stream[2].Type = "order.accepted" }, "in the stream each order"},
		"no order has two events":       {func(f *facts) { f.stream = f.stream[:2] }, "in the stream each order"},
		"old rows are left":             {func(f *facts) { f.old.after = 1 }, "an event and dedup rows"},
		"nothing was old":               {func(f *facts) { f.old.before = 0 }, "an event and dedup rows"},
		"the consumer wasn't killed":    {func(f *facts) { f.consumerDeath.bySIGKILL = false }, "the consumer killed"},
		"it hadn't committed":           {func(f *facts) { f.consumerDeath.dedupRows = 0 }, "the consumer killed"},
		"its message wasn't absorbed":   {func(f *facts) { f.consumers[planner].Duplicates = 1 }, "the consumer killed"},
		"its message was applied twice": {func(f *facts) { f.jobs = append(f.jobs, f.jobs[0]) }, "the consumer killed"},
		"a dedup row twice":             {func(f *facts) { f.dedup[report][0] = "a2" }, "each consumer has one dedup row"},
		"a dedup row is missing":        {func(f *facts) { f.dedup[report] = f.dedup[report][1:] }, "each consumer has one dedup row"},
		"a dedup row of no event":       {func(f *facts) { f.dedup["another"] = []string{"a1"} }, "each consumer has one dedup row"},
		"an event with two jobs":        {func(f *facts) { f.jobs = append(f.jobs, f.jobs[1]) }, "every event has exactly one"},
		"an event without a job":        {func(f *facts) { f.jobs = f.jobs[1:] }, "every event has exactly one"},
		"a job of the wrong kind":       {func(f *facts) { f.jobs[0].Kind = "order-cancelled" }, "every event has exactly one"},
		"a job of no event":             {func(f *facts) { f.jobs = append(f.jobs, jobRow{"zz", 1, "order-accepted"}) }, "every event has exactly one"},
		"a cent too much": {func(f *facts) {
			f.sales[salesKey{1, "2026-01-02", "EUR"}] = salesRow{1, decimal.RequireFromString("10.01")}
		}, "the sales report"},
		"an order added twice": {func(f *facts) {
			f.sales[salesKey{1, "2026-01-02", "EUR"}] = salesRow{2, decimal.NewFromInt(10)}
		}, "the sales report"},
		"a sum of nothing":            {func(f *facts) { f.sales[salesKey{9, "2026-01-02", "EUR"}] = salesRow{} }, "the sales report"},
		"no foreign-key error":        {func(f *facts) { f.foreignKeyErrors = 0 }, "a foreign-key error"},
		"one kept its dedup row":      {func(f *facts) { f.blocked.dedupRows = 1 }, "a foreign-key error"},
		"one kept its job":            {func(f *facts) { f.blocked.jobs = 1 }, "a foreign-key error"},
		"one wasn't counted":          {func(f *facts) { f.consumers[planner].Errors = 1 }, "a foreign-key error"},
		"one was never applied":       {func(f *facts) { f.jobs = f.jobs[:2] }, "a foreign-key error"},
		"an attempt got lost":         {func(f *facts) { f.consumers[report].Attempts = 4 }, "every attempt"},
		"applied without a dedup row": {func(f *facts) { f.consumers[report].Applied, f.consumers[report].Attempts = 3, 4 }, "every attempt"},
		"nothing was parked":          {func(f *facts) { f.parked = nil }, "an event that failed"},
		"parked for another reason":   {func(f *facts) { f.parked[0].kind = "payload" }, "an event that failed"},
		"its redrive was a duplicate": {func(f *facts) { f.parked[0].redriven = outbox.Duplicate }, "an event that failed"},
		"its redrive left two jobs":   {func(f *facts) { f.jobs = append(f.jobs, f.jobs[2]) }, "an event that failed"},
		"a consumer told nothing":     {func(f *facts) { f.consumers[report].Reported = false }, "every attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			test.breakIt(f)
			for _, v := range judge(f) {
				if strings.Contains(v.claim, test.claim) {
					if len(v.problems) == 0 {
						t.Errorf("passed: %s", v.claim)
					}
					return
				}
			}
			t.Fatalf("no claim has the words %q", test.claim)
		})
	}
}
