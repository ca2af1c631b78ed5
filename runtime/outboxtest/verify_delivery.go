package outboxtest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
)

// confirmedUnmarked lets a relay die between the broker's confirm and its mark.
func (v *verification) confirmedUnmarked(ctx context.Context) error {
	i, id, err := v.injectWritten(ctx, required(record.ConfirmedUnmarked), record.OutcomeKill)
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
	i.expect(err == nil && state.status == history.StatusPending, "the event is %s after the relay's death", state.status)
	if v.broker == nil {
		i.plan.Redelivery = false // the broker may absorb the repeat itself
	}
	return i.heal(ctx)
}

// expiredLease lets a relay stand still between confirm and mark until another one, which
// claims all the while, has leased and published the event; then it tries its mark.
func (v *verification) expiredLease(ctx context.Context) error {
	i, id, err := v.injectWritten(ctx, required(record.ExpiredLease), record.OutcomeStop)
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
		i.expect(marked, "%s tried its mark: %v", r.relay.name, marked)
		state, err := v.rowState(ctx, id.String())
		i.see("then the event was %s", cmp.Or(state.status, "gone"))
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

// committedUnacked lets every consumer die between its commit and the acknowledgement.
func (v *verification) committedUnacked(ctx context.Context) error {
	return v.consumersDie(ctx, required(record.CommittedUnacked), record.OutcomeKill, func(_ *injection, c *consumerActor) {
		c.dieApplied = true
	})
}

// effectUncommitted lets every consumer die when COMMIT is its next statement.
func (v *verification) effectUncommitted(ctx context.Context) error {
	return v.consumersDie(ctx, record.Required{
		ID: "effect-not-committed", Title: "after the consumer's effect, before its commit", Point: fault.ConsumerCommit,
		Expected: "effect and dedup row are rolled back together, the message is delivered again and has its effect once",
		Plan:     history.Plan{Error: true},
	}, record.OutcomeCutRequest, func(i *injection, c *consumerActor) { i.dieAtCommit(c, mysqlproxy.CutRequest) })
}

// consumerReplyLost lets every consumer die when the server has committed and its reply is
// on the way.
func (v *verification) consumerReplyLost(ctx context.Context) error {
	return v.consumersDie(ctx, record.Required{
		ID: "consumer-commit-reply-lost", Title: "the consumer's commit succeeds and it sees an error", Point: fault.ConsumerReply,
		Expected: "it is not acknowledged; the message is delivered again, and the dedup row absorbs it",
		Plan:     history.Plan{Error: true, Redelivery: true},
	}, record.OutcomeCutReply, func(i *injection, c *consumerActor) { i.dieAtCommit(c, mysqlproxy.CutReply) })
}

func (i *injection) dieAtCommit(c *consumerActor, action mysqlproxy.Action) {
	f := c.proxy.Arm(mysqlproxy.Rule{Action: action, Match: insertsInto(consumedTable), Commit: true, Sever: true})
	happened := f.Hit
	if action == mysqlproxy.CutReply {
		happened = f.Done
	}
	c.dieAfter(happened, func() { i.v.fault(i.Point, i.outcome) })
}

// consumersDie has all consumers die on the event of a request, as arm prepares it, and
// others take over.
func (v *verification) consumersDie(
	ctx context.Context, what record.Required, outcome string, arm func(*injection, *consumerActor),
) error {
	i, _, err := v.injectWritten(ctx, what, outcome)
	if err != nil {
		return err
	}
	relay, err := v.newRelay(ctx, "relay "+i.ID)
	if err != nil {
		return err
	}
	defer relay.stop()
	if err := relay.start(); err != nil {
		return err
	}
	consumers, err := i.startConsumers(ctx, func(c *consumerActor) { arm(i, c) })
	defer func() { stopAll(consumers) }()
	if err != nil {
		return err
	}
	for _, c := range consumers {
		if !v.happened(ctx, c.died) {
			i.notHappened("consumer %s did not come to the point in %v", c.Name(), v.cfg.Patience)
		}
	}
	stopAll(consumers)
	relay.stop()
	consumers = nil
	return i.heal(ctx)
}

// dedupError has the database answer the insert of the dedup row with other errors.
func (v *verification) dedupError(ctx context.Context) error {
	i, _, err := v.injectWritten(ctx, required(record.DedupError), "error")
	if err != nil {
		return err
	}
	relay, err := v.newRelay(ctx, "relay "+i.ID)
	if err != nil {
		return err
	}
	defer relay.stop()
	if err := relay.start(); err != nil {
		return err
	}
	var armed []armedFault
	consumers, err := i.startConsumers(ctx, func(c *consumerActor) {
		for n, e := range otherErrors {
			// The first is taken away by then: each sees the next attempt.
			f := c.proxy.Arm(mysqlproxy.Rule{Action: mysqlproxy.Answer, Match: insertsInto(consumedTable), Error: e})
			armed = append(armed, armedFault{c.Name(), otherErrors[n].Number, f})
		}
	})
	defer func() { stopAll(consumers) }()
	if err != nil {
		return err
	}
	for _, a := range armed {
		if !v.happened(ctx, a.fault.Done) {
			i.notHappened("consumer %s did not see the error %d in %v", a.consumer, a.number, v.cfg.Patience)
			continue
		}
		v.fault(i.Point, i.outcome)
		i.see("consumer %s saw the error %d, which is no duplicate event", a.consumer, a.number)
	}
	if err := i.settle(ctx); err != nil {
		return err
	}
	return i.end(ctx)
}

type armedFault struct {
	consumer string
	number   uint16
	fault    *mysqlproxy.Fault
}

// injectWritten begins an injection whose request is written without a fault.
func (v *verification) injectWritten(ctx context.Context, what record.Required, outcome string) (*injection, uuid.UUID, error) {
	i, err := v.inject(ctx, what, outcome)
	if err != nil {
		return nil, uuid.Nil, err
	}
	if err := i.writeSoundly(ctx); err != nil {
		return nil, uuid.Nil, err
	}
	id, _, err := v.eventOf(ctx, i.request)
	return i, id, err
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
