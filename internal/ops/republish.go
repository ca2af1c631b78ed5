package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/rebuild"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Republished is what became of a difference, or would.
type Republished struct {
	Check Check `json:"check"`
	Result
}

// Republish makes anew what a comparison found to be missing, under the same event ids: events
// of business rows, by the statements of source.rebuild, and deliveries to consumers. What can't
// be, or need not, is returned with a note. Unless write is given nothing is changed, and Done
// says what could be.
func (s *Service) Republish(ctx context.Context, report *ReconcileReport, write bool, pace Pace) ([]Republished, error) {
	w := &rewriter{Service: s, since: report.audit, write: write, schemas: map[*spec.Version]*rebuild.Schema{}, statements: map[string]string{}}
	byID := map[uuid.UUID]Finding{}
	var events []uuid.UUID
	deliveries := map[string][]uuid.UUID{}
	var out []Republished
	var consumers []string
	for _, f := range report.Findings {
		id, err := uuid.Parse(f.EventID)
		note := ""
		switch {
		case err != nil:
			note = "no event id is known"
		case f.Check == CheckNoEvent:
			if _, twice := byID[id]; !twice {
				byID[id] = f
				events = append(events, id)
			}
			continue
		case f.Check == CheckNotApplied:
			if deliveries[f.Consumer] == nil {
				consumers = append(consumers, f.Consumer)
			}
			deliveries[f.Consumer] = append(deliveries[f.Consumer], id)
			continue
		case f.Check == CheckNoSource:
			note = "nothing is done: there is no business row to make it of"
		case f.Check == CheckParked:
			note = "nothing is done: outboxgen parked redrive " + f.Consumer
		case f.Check == CheckDead:
			note = "nothing is done: outboxgen dead redrive"
		default:
			note = "nothing is done: a relay publishes it; outboxgen status"
		}
		out = append(out, Republished{f.Check, Result{EventID: id, Consumer: f.Consumer, Note: note}})
	}
	add := func(check Check, results []Result) {
		for _, r := range results {
			out = append(out, Republished{check, r})
		}
	}
	results, err := pace.inBatches(ctx, events, func(ids []uuid.UUID) (results []Result, err error) {
		for _, id := range ids {
			note, err := w.rewrite(ctx, byID[id])
			if err != nil {
				return results, err
			}
			results = append(results, Result{EventID: id, Done: note == "", Note: note})
		}
		return results, nil
	})
	add(CheckNoEvent, results)
	if err != nil {
		return out, err
	}
	for _, consumer := range consumers {
		results, err := w.deliver(ctx, consumer, deliveries[consumer], pace)
		add(CheckNotApplied, results)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// deliver makes deliveries anew, or says which could be.
func (w *rewriter) deliver(ctx context.Context, consumer string, ids []uuid.UUID, pace Pace) (results []Result, err error) {
	if w.write {
		return w.redeliver(ctx, consumer, ids, redeliverOptions{pace: pace, reason: "reconcile found that it was not applied"})
	}
	pace.PerSecond = 0
	return pace.inBatches(ctx, ids, func(ids []uuid.UUID) (results []Result, err error) {
		for begin := 0; begin < len(ids); begin += redeliverBatch {
			part := ids[begin:min(begin+redeliverBatch, len(ids))]
			stored, err := w.readStored(ctx, part)
			if err != nil {
				return results, err
			}
			for _, id := range part {
				note := stored[id].undeliverable()
				results = append(results, Result{EventID: id, Consumer: consumer, Done: note == "", Note: note})
			}
		}
		return results, nil
	})
}

// refusedError carries why an event is not written.
type refusedError struct{ note string }

func (e *refusedError) Error() string { return e.note }

func refuse(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// refusal is the note of a refusedError.
func refusal(err error) (string, bool) {
	if r := new(refusedError); errors.As(err, &r) {
		return r.note, true
	}
	return "", false
}
