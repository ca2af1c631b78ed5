package main

import (
	"context"
	"slices"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// The drain section's sizes of payload, in bytes.
const (
	small = 300
	large = 4096
)

// aggregates that the events belong to, unless it is about one of them.
const aggregates = 5000

// drain compares how fast a relay drains an outbox: of both orderings, beside bare
// loops of their statements, with a large payload, and with a second relay.
func (b *bench) drain(ctx context.Context) error {
	type set struct{ relay, bare, two, large *side }
	measured := map[*kind]*set{}
	var all []*side
	for _, k := range []*kind{aggregate, none} {
		box, err := newBox(ctx, b.dsn, k, "drain")
		if err != nil {
			return err
		}
		defer box.close()
		s := &set{
			relay: &side{name: k.text + ", relay", run: b.drainSide(box, small, crew{relays: 1})},
			bare:  &side{name: k.text + ", bare loop", run: b.bareSide(box, small, b.batch, bareLoop.lease)},
			two:   &side{name: k.text + ", two relays", run: b.drainSide(box, small, crew{relays: 2})},
			large: &side{name: k.text + ", relay, 4 KB", run: b.drainSide(box, large, crew{relays: 1})},
		}
		measured[k] = s
		slices.Reverse(all) // what is compared stands side by side: both relays in the middle
		all = append(all, s.relay, s.bare, s.two, s.large)
	}
	if err := b.contest(ctx, "drain", "events/s", all...); err != nil {
		return err
	}
	b.atLeast("drain", "ordering: aggregate, of ordering: none", measured[aggregate].relay, measured[none].relay,
		map[dbserver.Flavor]float64{dbserver.MySQL: 1.3, dbserver.MariaDB: 1.1}[b.flavor])
	for _, k := range []*kind{aggregate, none} {
		s := measured[k]
		b.atLeast("drain", k.text+", relay, of the bare loop of its statements", s.relay, s.bare, 0.9)
		b.atLeast("drain", k.text+", 4 KB, of 300 B", s.large, s.relay, 0.5)
		b.atLeast("drain", k.text+", two relays, of one", s.two, s.relay, 1.15)
	}
	return nil
}
