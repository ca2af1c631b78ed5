package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
)

// confirmedUnmarked lets a relay die between the broker's confirm and its mark.
func (i *injection) confirmedUnmarked(ctx context.Context) error {
	v := i.v
	id, err := i.writeSoundly(ctx)
	if err != nil {
		return err
	}
	relay, err := v.newRelay(ctx, "relay that dies")
	if err != nil {
		return err
	}
	defer relay.stop()
	relay.dieConfirmed = true
	if err := relay.start(); err != nil {
		return err
	}
	if !v.happened(ctx, relay.died) {
		i.notHappened("the broker confirmed nothing in %v", v.cfg.Patience)
	}
	state, err := v.rowState(ctx, id.String())
	i.expect(err == nil && state.status == history.StatusPending, problem{
		text: "after the relay's death the event is " + orGone(state.status), hint: "it must be marked after the broker's confirm, by the relay alone",
	})
	if v.broker == nil {
		i.plan.Redelivery = false // the broker may absorb the repeat itself
	}
	return i.heal(ctx)
}

// expiredLease lets a relay stand still between confirm and mark until another one, which
// claims all the while, has leased and published the event; then it tries its mark.
func (i *injection) expiredLease(ctx context.Context) error {
	v := i.v
	id, err := i.writeSoundly(ctx)
	if err != nil {
		return err
	}
	old, err := i.stopBeforeMark(ctx, "the old owner")
	if err != nil {
		return err
	}
	defer old.stop()
	resumeOld := sync.OnceFunc(func() { close(old.resume) })
	defer resumeOld()
	v.fault(i.Point, i.outcome, id)
	next, err := i.stopBeforeMark(ctx, "the new owner")
	if err != nil {
		return err
	}
	defer next.stop()
	resumeNext := sync.OnceFunc(func() { close(next.resume) })
	defer resumeNext()
	for _, r := range []struct {
		relay  *relayActor
		resume func()
	}{{old, resumeOld}, {next, resumeNext}} {
		r.resume()
		marked := v.happened(ctx, r.relay.marked)
		i.expect(marked, problem{text: fmt.Sprintf("%s tried its mark: %v", r.relay.name, marked), hint: hints["I6"]})
		state, err := v.rowState(ctx, id.String())
		i.see("then the event was %s", orGone(state.status))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	old.stop()
	next.stop()
	return i.heal(ctx)
}

// stopBeforeMark runs a relay until it stands still before the mark of an event.
func (i *injection) stopBeforeMark(ctx context.Context, name string) (*relayActor, error) {
	relay, err := i.v.newRelay(ctx, name)
	if err != nil {
		return nil, err
	}
	relay.pause = true
	if err := relay.start(); err != nil {
		relay.stop()
		return nil, err
	}
	if !i.v.happened(ctx, relay.paused) {
		i.notHappened("%s published nothing in %v", name, i.v.cfg.Patience)
	}
	return relay, nil
}

// dieApplied lets a consumer die between its commit and the acknowledgement.
func (i *injection) dieApplied(c *consumerActor) { c.dieApplied = true }

// dieAtCommit lets a consumer die at its COMMIT: before the server sees it, or when the server
// has committed and its reply is on the way.
func dieAtCommit(action mysqlproxy.Action) func(*injection, *consumerActor) {
	return func(i *injection, c *consumerActor) {
		f := c.proxy.Arm(mysqlproxy.Rule{Action: action, Match: insertsInto(consumedTable), Commit: true, Sever: true})
		happened := f.Hit
		if action == mysqlproxy.CutReply {
			happened = f.Done
		}
		c.dieAfter(happened, func() { i.v.fault(i.Point, i.outcome) })
	}
}

// consumersDie has all consumers die on the event of a request, as arm prepares it, and
// others take over.
func consumersDie(arm func(*injection, *consumerActor)) func(*injection, context.Context) error {
	return func(i *injection, ctx context.Context) error {
		if _, err := i.writeSoundly(ctx); err != nil {
			return err
		}
		err := i.deliver(ctx, func(c *consumerActor) { arm(i, c) }, func(consumers []*consumerActor) error {
			for _, c := range consumers {
				if !i.v.happened(ctx, c.died) {
					i.notHappened("consumer %s did not come to the point in %v: does New use the db that it is given?", c.Name(), i.v.cfg.Patience)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return i.heal(ctx)
	}
}

// happened waits for a signal, for as long as patience lasts.
func (v *verification) happened(ctx context.Context, signal <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Patience)
	defer cancel()
	select {
	case <-signal:
		return true
	case <-ctx.Done():
		return false
	}
}
