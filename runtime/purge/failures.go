package purge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// failures is the work on one consumer's counts of failed attempts. An index has
// them in the order in which they become old, and there are few.
type failures struct {
	queries  DedupQueries
	batch    int
	consumer string
	retainUs int64
}

func newFailures(q DedupQueries, batch int, retain map[string]time.Duration) []failures {
	var all []failures
	for _, consumer := range slices.Sorted(maps.Keys(retain)) {
		all = append(all, failures{queries: q, batch: batch, consumer: consumer, retainUs: micros(retain[consumer])})
	}
	return all
}

func (f failures) purge(ctx context.Context, p *pass) error {
	for {
		if err := p.next(ctx); err != nil {
			return err
		}
		ids, err := f.queries.SelectConsumerFailures(p.grace, p.db, SelectConsumerFailuresParams{
			ConsumerName: f.consumer, RetainUs: f.retainUs, Limit: int32(f.batch),
		})
		if err != nil {
			return fmt.Errorf("select failed attempts: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		var deleted int64
		done, err := p.inTx(func(tx *outbox.Tx) (err error) {
			deleted, err = f.queries.DeleteConsumerFailures(p.grace, tx, DeleteConsumerFailuresParams{
				ConsumerName: f.consumer, EventIds: ids, RetainUs: f.retainUs,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("delete failed attempts: %w", err)
		}
		if !done {
			return nil // locked: the next pass begins with them
		}
		p.add(Purged{Failed: deleted})
		if len(ids) < f.batch || deleted == 0 {
			return nil
		}
	}
}
