package main

import (
	"sync"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// answers counts what publishers said of an event, or of all.
type answers struct {
	Confirmed int
	Failures  map[outbox.FailureKind]int
	early     bool // confirmed before the fault was mended
}

func (a *answers) add(err error) {
	if err == nil {
		a.Confirmed++
		return
	}
	if a.Failures == nil {
		a.Failures = make(map[outbox.FailureKind]int)
	}
	a.Failures[outbox.FailureKindOf(err)]++
}

// cause is a failure that a fault has to show as, with its kind.
type cause struct {
	name string
	kind outbox.FailureKind
	is   func(error) bool
}

// record is what the relays saw.
type record struct {
	changed notice
	causes  []cause

	mu      sync.Mutex
	all     answers
	byEvent map[uuid.UUID]*answers
	seen    map[string]int // causes, by name
	samples map[outbox.FailureKind]string
	pauses  int
	mended  bool
	before  int // events confirmed when the fault began, -1 while it hasn't
	after   int // when it was over

	pausesBefore int // when it began
}

func newRecord(causes []cause) *record {
	return &record{
		causes: causes, byEvent: make(map[uuid.UUID]*answers), seen: make(map[string]int),
		samples: make(map[outbox.FailureKind]string), before: -1,
	}
}

func (r *record) observer() *outbox.Observer {
	return &outbox.Observer{
		Paused: func(outbox.Paused) {
			r.mu.Lock()
			r.pauses++
			r.mu.Unlock()
			r.changed.tell()
		},
	}
}

// answered notes what a publisher returned.
func (r *record) answered(messages []outbox.Envelope, results []error) {
	r.mu.Lock()
	for i, err := range results {
		r.add(messages[i].ID, err)
	}
	r.mu.Unlock()
	r.changed.tell()
}

func (r *record) add(id uuid.UUID, err error) {
	of := r.byEvent[id]
	if of == nil {
		of = &answers{}
		r.byEvent[id] = of
	}
	of.add(err)
	r.all.add(err)
	if err == nil {
		of.early = of.early || !r.mended
		return
	}
	kind := outbox.FailureKindOf(err)
	if r.samples[kind] == "" {
		r.samples[kind] = err.Error()
	}
	for _, c := range r.causes {
		if c.kind == kind && c.is(err) {
			r.seen[c.name]++
		}
	}
}

// failures returns how many events had that kind of answer.
func (r *record) failures(kind outbox.FailureKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Failures[kind]
}

// breaks notes that the fault begins.
func (r *record) breaks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before < 0 {
		r.before, r.pausesBefore = r.all.Confirmed, r.pauses
	}
}

// mends notes that the fault is over.
func (r *record) mends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mended, r.after = true, r.all.Confirmed
}
