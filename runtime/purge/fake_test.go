package purge_test

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// fake is a database in memory, whose clock is the test's. Every statement takes
// some time, and may fail.
type fake struct {
	mu       sync.Mutex
	events   []event // in the order of the index
	failures map[string]bool
	relays   map[string]time.Time // when the run ended
	consumed []consumed           // in the order of their ids
	failed   []failure            // at consumers
	lastID   int64
	tasks    map[string]task

	before func(ctx context.Context, call string) error // may fail, or take its time
	took   func(rows int) time.Duration
	calls  map[string]int
	seen   []statement
}

type event struct {
	id        string
	lane      uint16
	available time.Time
	published time.Time // never for one that is not
}

type consumed struct {
	id       int64
	consumer string
	at       time.Time
	parked   bool
}

type failure struct {
	consumer, event string
	at              time.Time
}

type task struct {
	holder string
	until  time.Time
}

// statement is one that read or deleted rows.
type statement struct {
	call string
	from int64 // where it began to read
	lane uint16
	rows int // that it read, or was to delete
}

func newFake() *fake {
	return &fake{
		failures: map[string]bool{}, relays: map[string]time.Time{}, tasks: map[string]task{}, calls: map[string]int{},
		before: func(context.Context, string) error { return nil },
		took:   func(rows int) time.Duration { return time.Duration(rows) * 2 * time.Microsecond },
	}
}

// call begins a statement; the caller unlocks.
func (f *fake) call(ctx context.Context, name string) error {
	err := f.before(ctx, name)
	f.mu.Lock()
	f.calls[name]++
	return cmp.Or(err, ctx.Err())
}

func (f *fake) done(s statement) {
	f.seen = append(f.seen, s)
	took := f.took(s.rows)
	f.mu.Unlock()
	time.Sleep(took)
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func (f *fake) SelectPurgeable(ctx context.Context, _ outbox.DBTX, p purge.SelectPurgeableParams) ([]purge.Purgeable, error) {
	if err := f.call(ctx, "select events"); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	old := time.Now().Add(-micros(p.KeepUs))
	var rows []purge.Purgeable
	first, _ := slices.BinarySearchFunc(f.events, p.FromUs, func(e event, us int64) int { return cmp.Compare(e.available.UnixMicro(), us) })
	for _, e := range f.events[first:] {
		if !e.available.Before(old) || len(rows) == int(p.Limit) {
			break
		}
		if e.published.IsZero() || e.lane != p.Lane {
			continue
		}
		row := purge.Purgeable{EventID: e.id, AvailableUs: e.available.UnixMicro()}
		if e.published.Before(old) {
			row.Purgeable = 1
		}
		rows = append(rows, row)
	}
	f.done(statement{call: "select events", from: p.FromUs, lane: p.Lane, rows: len(rows)})
	return rows, nil
}

func (f *fake) DeletePublished(ctx context.Context, _ outbox.DBTX, p purge.DeletePublishedParams) (int64, error) {
	if err := f.call(ctx, "delete events"); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	ids := map[string]bool{}
	for _, id := range p.EventIds {
		ids[id] = true
	}
	old, before := time.Now().Add(-micros(p.KeepUs)), len(f.events)
	f.events = slices.DeleteFunc(f.events, func(e event) bool {
		return ids[e.id] && !e.published.IsZero() && e.published.Before(old)
	})
	n := int64(before - len(f.events))
	f.done(statement{call: "delete events", rows: len(p.EventIds)})
	return n, nil
}

func (f *fake) DeleteFailures(ctx context.Context, _ outbox.DBTX, p purge.DeleteFailuresParams) error {
	err := f.call(ctx, "delete failures")
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	for _, id := range p.EventIds {
		delete(f.failures, id)
	}
	return nil
}

func (f *fake) SelectOldRelays(ctx context.Context, _ outbox.DBTX, p purge.SelectOldRelaysParams) (owners []string, err error) {
	err = f.call(ctx, "select relays")
	defer f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for owner, end := range f.relays {
		if end.Before(time.Now().Add(-micros(p.KeepUs))) && len(owners) < int(p.Limit) {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

func (f *fake) DeleteRelays(ctx context.Context, _ outbox.DBTX, p purge.DeleteRelaysParams) (n int64, err error) {
	err = f.call(ctx, "delete relays")
	defer f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	for _, owner := range p.Owners {
		if end, ok := f.relays[owner]; ok && end.Before(time.Now().Add(-micros(p.KeepUs))) {
			delete(f.relays, owner)
			n++
		}
	}
	return n, nil
}

func (f *fake) SelectConsumed(ctx context.Context, _ outbox.DBTX, p purge.SelectConsumedParams) (rows []purge.Consumed, err error) {
	if err := f.call(ctx, "select consumed"); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	first, _ := slices.BinarySearchFunc(f.consumed, p.AfterID+1, func(c consumed, id int64) int { return cmp.Compare(c.id, id) })
	for _, c := range f.consumed[first:min(len(f.consumed), first+int(p.Limit))] {
		rows = append(rows, purge.Consumed{ID: c.id, ConsumerName: c.consumer, AgeUs: time.Since(c.at).Microseconds()})
	}
	f.done(statement{call: "select consumed", from: p.AfterID, rows: len(rows)})
	return rows, nil
}

func (f *fake) DeleteConsumed(ctx context.Context, _ outbox.DBTX, p purge.DeleteConsumedParams) (int64, error) {
	if err := f.call(ctx, "delete consumed"); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	old, before := time.Now().Add(-micros(p.RetainUs)), len(f.consumed)
	f.consumed = slices.DeleteFunc(f.consumed, func(c consumed) bool {
		_, found := slices.BinarySearch(p.Ids, c.id)
		return found && c.consumer == p.ConsumerName && c.at.Before(old) && !c.parked
	})
	n := int64(before - len(f.consumed))
	f.done(statement{call: "delete consumed", rows: len(p.Ids)})
	return n, nil
}

func (f *fake) SelectConsumerFailures(ctx context.Context, _ outbox.DBTX, p purge.SelectConsumerFailuresParams) (ids []string, err error) {
	if err := f.call(ctx, "select failed"); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	for _, row := range f.failed {
		if row.consumer == p.ConsumerName && row.at.Before(time.Now().Add(-micros(p.RetainUs))) && len(ids) < int(p.Limit) {
			ids = append(ids, row.event)
		}
	}
	f.done(statement{call: "select failed", rows: len(ids)})
	return ids, nil
}

func (f *fake) DeleteConsumerFailures(ctx context.Context, _ outbox.DBTX, p purge.DeleteConsumerFailuresParams) (int64, error) {
	if err := f.call(ctx, "delete failed"); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	old, before := time.Now().Add(-micros(p.RetainUs)), len(f.failed)
	f.failed = slices.DeleteFunc(f.failed, func(row failure) bool {
		return row.consumer == p.ConsumerName && slices.Contains(p.EventIds, row.event) && row.at.Before(old)
	})
	n := int64(before - len(f.failed))
	f.done(statement{call: "delete failed", rows: len(p.EventIds)})
	return n, nil
}

func (f *fake) TakeTask(ctx context.Context, _ outbox.DBTX, p purge.TakeTaskParams) error {
	err := f.call(ctx, "take")
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	if t, taken := f.tasks[p.Task]; !taken || t.holder == p.Holder || !t.until.After(time.Now()) {
		f.tasks[p.Task] = task{holder: p.Holder, until: time.Now().Add(micros(p.HoldUs))}
	}
	return nil
}

func (f *fake) TaskHolder(ctx context.Context, _ outbox.DBTX, p purge.TaskHolderParams) (string, error) {
	err := f.call(ctx, "holder")
	defer f.mu.Unlock()
	if err != nil {
		return "", err
	}
	t, taken := f.tasks[p.Task]
	if !taken {
		return "", sql.ErrNoRows
	}
	return t.holder, nil
}

func (f *fake) EndTask(ctx context.Context, _ outbox.DBTX, p purge.EndTaskParams) error {
	err := f.call(ctx, "end")
	defer f.mu.Unlock()
	if err != nil {
		return err
	}
	if f.tasks[p.Task].holder == p.Holder {
		delete(f.tasks, p.Task)
	}
	return nil
}
