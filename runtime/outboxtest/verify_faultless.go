package outboxtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// faultless does a request without any fault, before anything is broken: what the Config says is
// believed from then on.
func (i *injection) faultless(ctx context.Context) error {
	v := i.v
	id, err := i.writeFirst(ctx)
	if err != nil {
		return err
	}
	err = i.deliver(ctx, func(*consumerActor) {}, func(consumers []*consumerActor) error {
		if err := i.settleAndEnd(ctx); err != nil || i.stuck {
			return err
		}
		for _, c := range consumers {
			v.statements[c.Name()] = c.handlerStatements(id)
		}
		return nil
	})
	if err != nil || i.stuck {
		return err
	}
	parked, err := v.consumerRows(ctx, parkedTable)
	if i.stuck = len(parked) > 0; err != nil || i.stuck {
		return err
	}
	return i.checkEffects(ctx, id)
}

// writeFirst writes the event, and holds Business against the outbox.
func (i *injection) writeFirst(ctx context.Context) (uuid.UUID, error) {
	v := i.v
	id, err := i.writeSoundly(ctx)
	if err != nil {
		return id, err
	}
	known, err := v.known(ctx)
	if err != nil {
		return id, err
	}
	all, err := v.business(ctx)
	if err != nil {
		return id, err
	}
	rows := slices.DeleteFunc(slices.Clone(all), func(b history.Business) bool { return b.RequestID != i.request.ID })
	switch came := without(known, i.before); {
	case len(came) != 1:
		err = fmt.Errorf("Config.Write: it returned committed, and there are %d new events in the outbox: it has to write one, with the db that it is given", len(came))
	case len(rows) == 0:
		err = fmt.Errorf("Config.Business, or Config.Write: the event of the first request is committed, and of the %d rows that the query Business returns none has"+
			" the request's id (Request.ID) in its first column", len(all))
	case len(rows) > 1:
		err = fmt.Errorf("Config.Business: the query returns %d rows of one request: it has to return each business row once", len(rows))
	case id != came[0]:
		err = fmt.Errorf("Config.Business, or Config.Write: the query Business returns another id in its second column than that of the event in the outbox")
	}
	return id, err
}

// checkEffects holds what Effects count against what was applied.
func (i *injection) checkEffects(ctx context.Context, id uuid.UUID) error {
	v := i.v
	done := i.request
	done.EventID = id
	never := Request{ID: uuid.NewString(), Number: int64(len(v.requests) + 1), EventID: outbox.NewEventID()}
	for n, name := range v.hist.Consumers {
		count, err := v.effects(ctx, n, done)
		if err != nil {
			return err
		}
		if count != 1 {
			return fmt.Errorf("Config.Consumers[%d].Effects, or the handler: consumer %s has applied the event of the first request, without any fault,"+
				" and Effects counts %d of it, not 1", n, name, count)
		}
		if count, err = v.effects(ctx, n, never); err != nil {
			return err
		}
		if count != 0 {
			return fmt.Errorf("Config.Consumers[%d].Effects: it counts %d for a request that was never made: it has to count those of its Request alone", n, count)
		}
	}
	return nil
}

// effects runs a consumer's Effects.
func (v *verification) effects(ctx context.Context, consumer int, r Request) (int, error) {
	count, err := v.cfg.Consumers[consumer].Effects(ctx, v.db, r)
	if err != nil {
		return 0, fmt.Errorf("run Config.Consumers[%d].Effects, of consumer %s: %w", consumer, v.hist.Consumers[consumer], err)
	}
	return count, nil
}
