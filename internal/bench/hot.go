package main

import "context"

// hot compares a drain of events of many aggregates with one of a single
// aggregate's, and with one beside an aggregate that waits for its failed first event.
func (b *bench) hot(ctx context.Context) error {
	box, err := newBox(ctx, b.dsn, aggregate, "hot")
	if err != nil {
		return err
	}
	defer box.close()
	one := crew{relays: 1}
	waiting := b.events * 2 / 5
	spread := &side{name: "5,000 aggregates", run: b.drainSide(box, small, one)}
	single := &side{name: "one aggregate has all events", run: b.loadSide(box, one, load{events: b.events, aggregates: 1, prefix: "hot", size: small})}
	poisoned := &side{
		name: "5,000 aggregates, and one with waiting events behind a failed one",
		run: func(ctx context.Context) (sample, error) {
			err := box.stage(ctx, false, load{events: waiting, aggregates: 1, prefix: "poisoned", size: small}, b.due(small))
			if err != nil {
				return sample{}, err
			}
			err = box.exec(ctx, `UPDATE `+staged+` SET attempts = 1, next_attempt_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
				WHERE aggregate_id LIKE 'poisoned%' ORDER BY available_at, event_version, event_id LIMIT 1`)
			if err != nil {
				return sample{}, err
			}
			return b.drainRate(ctx, box, one, b.events)
		},
	}
	if err := b.contest(ctx, "hot", "events/s", spread, single, poisoned); err != nil {
		return err
	}
	b.atLeast("hot", "one aggregate, of 5,000", single, spread, 0.7)
	b.atLeast("hot", "the others beside a poisoned aggregate, of without", poisoned, spread, 0.8)
	return nil
}
