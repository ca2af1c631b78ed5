package kafka

import (
	"container/list"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tracker knows which records of a partition are done with, during one assignment. What
// may be committed is the offset of the first that isn't.
type tracker struct {
	mu      sync.Mutex
	pending list.List // of *place: begun and not done with, by offset
	next    int64     // behind the last record that was begun or skipped; none yet: 0
	epoch   int32     // leader epoch of that record
	begun   int64     // records begun, without those skipped
	reading int       // how often the partition has been read from an earlier offset again
	any     bool      // a record has come
}

// place is a record in a partition.
type place struct {
	offset  int64
	epoch   int32
	before  int64 // records begun before it
	reading int
	element *list.Element
}

// begin notes a record that is about to be handled. Records come by offset.
func (t *tracker) begin(r *kgo.Record) *place {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(r)
	p := &place{offset: r.Offset, epoch: r.LeaderEpoch, before: t.begun, reading: t.reading}
	p.element = t.pending.PushBack(p)
	t.begun++
	return p
}

// skip notes a record that needs no handling.
func (t *tracker) skip(r *kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(r)
}

// pass moves on to a record. An offset that was passed before means that the log was
// cut or the offset reset: what is pending from before comes again, or is gone.
func (t *tracker) pass(r *kgo.Record) {
	if t.any && r.Offset < t.next {
		t.begun -= int64(t.pending.Len())
		t.pending.Init()
		t.reading++
	}
	t.next, t.epoch, t.any = r.Offset+1, r.LeaderEpoch, true
}

// done notes that a record is done with.
func (t *tracker) done(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.reading == t.reading {
		t.pending.Remove(p.element)
	}
}

// prefix returns the offset up to which, without it, every record is done with, and how
// many were handled up to there. ok is false as long as no record has come.
func (t *tracker) prefix() (at kgo.EpochOffset, handled int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := t.pending.Front(); first != nil {
		p, _ := first.Value.(*place)
		return kgo.EpochOffset{Epoch: p.epoch, Offset: p.offset}, p.before, true
	}
	return kgo.EpochOffset{Epoch: t.epoch, Offset: t.next}, t.begun, t.any
}
