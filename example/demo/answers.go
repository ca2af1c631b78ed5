package main

import (
	"fmt"
	"sync"
)

// answers is what the clients were told: the other side of the comparison with
// the database.
type answers struct {
	mu sync.Mutex

	orders    map[requestKey]answeredOrder
	refusals  map[requestKey]int
	cancels   map[int64]int // by order id
	posts     int           // POST /orders answered for good
	repeats   int           // of those: answered with an order that an earlier answer had named
	unsettled int           // requests answered with 503, or not at all, and sent again

	// contradictions are answers that don't go with an earlier one.
	contradictions []string
}

type answeredOrder struct {
	ID      int64
	EventID string
	created bool // some answer said that it was made by that request
}

func newAnswers() *answers {
	return &answers{
		orders:   map[requestKey]answeredOrder{},
		refusals: map[requestKey]int{},
		cancels:  map[int64]int{},
	}
}

func (a *answers) accepted(key requestKey, id int64, eventID string, created bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts++
	first, known := a.orders[key]
	switch {
	case !known:
		a.orders[key] = answeredOrder{ID: id, EventID: eventID, created: created}
		return
	case first.ID != id || first.EventID != eventID:
		a.contradict("%v got the orders %d and %d", key, first.ID, id)
	case first.created && created:
		a.contradict("%v was told twice that its order was new", key)
	}
	a.repeats++
	first.created = first.created || created
	a.orders[key] = first
}

func (a *answers) refused(key requestKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts++
	a.refusals[key]++
}

func (a *answers) cancelled(orderID int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancels[orderID]++
}

func (a *answers) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsettled++
}

func (a *answers) contradict(format string, args ...any) {
	a.contradictions = append(a.contradictions, fmt.Sprintf(format, args...))
}

func (a *answers) orderID(key requestKey) (int64, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	order, ok := a.orders[key]
	return order.ID, ok
}

func (a *answers) counts() (orders, refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.orders), len(a.refusals)
}
