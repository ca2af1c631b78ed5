package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

func record(offset int64) *kgo.Record { return &kgo.Record{Offset: offset, LeaderEpoch: 7} }

func wantPrefix(t *testing.T, tr *tracker, offset, handled int64) {
	t.Helper()
	at, n, ok := tr.prefix()
	if !ok || at.Offset != offset || at.Epoch != 7 || n != handled {
		t.Errorf("prefix %+v, %d handled, %v; want offset %d, %d handled", at, n, ok, offset, handled)
	}
}

func TestTracker(t *testing.T) {
	var tr tracker
	if _, _, ok := tr.prefix(); ok {
		t.Error("there is something to commit before any record came")
	}
	first := tr.begin(record(100))
	wantPrefix(t, &tr, 100, 0)
	second, third := tr.begin(record(101)), tr.begin(record(105)) // offsets have gaps
	tr.done(second)
	wantPrefix(t, &tr, 100, 0)
	tr.done(first)
	wantPrefix(t, &tr, 105, 2)
	tr.skip(record(106))
	wantPrefix(t, &tr, 105, 2)
	tr.done(third)
	wantPrefix(t, &tr, 107, 3)
	tr.skip(record(110))
	wantPrefix(t, &tr, 111, 3)
}

func TestTrackerReadsAgain(t *testing.T) {
	var tr tracker
	old := tr.begin(record(50))
	tr.done(tr.begin(record(51)))
	again := tr.begin(record(40)) // the log was cut, or the offset reset
	wantPrefix(t, &tr, 40, 1)
	tr.done(old)
	wantPrefix(t, &tr, 40, 1)
	tr.done(again)
	wantPrefix(t, &tr, 41, 2)
}

// TestTrackerProperty compares with a plain model: the prefix is the first record that
// isn't done with, or the end of what came.
func TestTrackerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type model struct {
			offset int64
			place  *place // nil: done with, or skipped
		}
		var (
			tr      tracker
			records []*model
			next    = rapid.Int64Range(0, 1000).Draw(t, "first")
			open    []*model
		)
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				next += rapid.Int64Range(0, 3).Draw(t, "gap")
				m := &model{offset: next}
				m.place = tr.begin(record(next))
				records, open = append(records, m), append(open, m)
				next++
			},
			"skip": func(t *rapid.T) {
				next += rapid.Int64Range(0, 3).Draw(t, "gap")
				tr.skip(record(next))
				records = append(records, &model{offset: next})
				next++
			},
			"done": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				tr.done(open[i].place)
				open[i].place = nil
				open = append(open[:i:i], open[i+1:]...)
			},
			"": func(t *rapid.T) {
				want := next
				for _, m := range records {
					if m.place != nil {
						want = m.offset
						break
					}
				}
				at, _, ok := tr.prefix()
				if ok != (len(records) > 0) || ok && at.Offset != want {
					t.Fatalf("prefix %+v, %v; want %d of %d records", at, ok, want, len(records))
				}
			},
		})
	})
}
