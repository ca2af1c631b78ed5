package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// beforeCommit lets a writer die when COMMIT is its next statement.
func (i *injection) beforeCommit(ctx context.Context) error {
	v := i.v
	outcome, err := i.writeBroken(ctx, mysqlproxy.CutRequest)
	if err != nil {
		return err
	}
	i.expectTold(outcome != outbox.Committed, outcome)
	_, rows, err := v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	events, err := v.known(ctx)
	if err != nil {
		return err
	}
	came := without(events, i.before)
	i.expect(rows == 0, problem{text: fmt.Sprintf("%d business rows after the writer's death", rows), hint: hints["I1"]})
	i.expect(len(came) == 0, problem{text: fmt.Sprintf("%d events after the writer's death", len(came)), hint: hints["I1"]})
	if rows == 0 {
		if err := i.repeat(ctx); err != nil {
			return err
		}
	}
	return i.heal(ctx)
}

// commitReplyLost lets a writer die when the server has committed and its reply is on the way.
func (i *injection) commitReplyLost(ctx context.Context) error {
	v := i.v
	outcome, err := i.writeBroken(ctx, mysqlproxy.CutReply)
	if err != nil {
		return err
	}
	i.expectTold(outcome == outbox.Unknown, outcome)
	id, rows, err := v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	i.expect(rows == 1, problem{text: fmt.Sprintf("%d business rows after the lost reply", rows), hint: hints["I1"]})
	if err := i.reconcile(ctx, id); err != nil {
		return err
	}
	if err := i.repeat(ctx); err != nil {
		return err
	}
	return i.heal(ctx)
}

// expectTold notes what a writer made of its outcome.
func (i *injection) expectTold(ok bool, outcome outbox.Outcome) {
	i.expect(ok, problem{invariant: "I11", text: fmt.Sprintf("the writer was told %v", outcome)})
}

// writeBroken lets a writer die at the COMMIT of the transaction that has the event in it,
// or, if there is none, at any COMMIT.
func (i *injection) writeBroken(ctx context.Context, action mysqlproxy.Action) (outbox.Outcome, error) {
	rules := []mysqlproxy.Rule{
		{Action: action, Match: insertsInto(eventTable), Commit: true, Sever: true},
		{Action: action, Match: mysqlproxy.Is("COMMIT"), Sever: true},
	}
	for n, rule := range rules {
		if n > 0 {
			i.problems = append(i.problems, problem{
				text: "no COMMIT followed the event's insert on its connection: the event is not in a transaction with the business change",
				hint: hints["I1"],
			})
			i.newRequest()
		}
		outcome, hit, err := i.writeWith(ctx, rule)
		if err != nil || hit {
			return outcome, err
		}
	}
	return outbox.Unknown, errors.New("Write sends no COMMIT at all: it must use a transaction, and the db that it is given")
}

func (i *injection) writeWith(ctx context.Context, rule mysqlproxy.Rule) (outcome outbox.Outcome, hit bool, err error) {
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return outbox.Unknown, false, err
	}
	defer a.stop()
	fault := a.proxy.Arm(rule)
	outcome, _ = i.write(ctx, a)
	select {
	case <-fault.Hit:
	default:
		return outcome, false, nil
	}
	if rule.Action == mysqlproxy.CutReply {
		select {
		case <-fault.Done:
		case <-time.After(i.v.cfg.Patience):
			return outcome, false, nil
		}
	}
	i.v.fault(i.Point, i.outcome)
	return outcome, true, nil
}

// reconcile asks what became of the request, if the user has a function for it.
func (i *injection) reconcile(ctx context.Context, want uuid.UUID) error {
	if i.v.cfg.Reconcile == nil {
		return nil
	}
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	var found outbox.Reconciled
	i.v.await(ctx, func() bool {
		found, err = i.v.cfg.Reconcile(ctx, a.db, i.request)
		return !errors.Is(err, outbox.ErrStillUnknown)
	})
	if err != nil {
		return fmt.Errorf("run Reconcile: %w", err)
	}
	right := found.Found && found.EventID == want
	i.expect(right, problem{
		text: fmt.Sprintf("Reconcile found the business row with its event: %v", right), hint: "does Reconcile ask for the request's own id?",
	})
	i.v.note(func(h *history.History) {
		h.Requests[len(h.Requests)-1].Reconciled = &found.Found
	})
	return nil
}

// beforeClaim lets a writer die after its commit, while there is no relay.
func (i *injection) beforeClaim(ctx context.Context) error {
	a, err := i.v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	id, err := i.writeAlive(ctx, a)
	if err != nil {
		return err
	}
	a.die()
	i.v.fault(i.Point, i.outcome)
	state, err := i.v.rowState(ctx, id.String())
	i.expect(err == nil && state.status == history.StatusPending, problem{
		text: "while no relay runs the event is " + orGone(state.status), hint: "only a relay changes what is in the outbox",
	})
	return i.heal(ctx)
}

// refused has the user's business operation fail.
func (i *injection) refused(ctx context.Context) error {
	v := i.v
	a, err := v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	failure := v.cfg.Refused(ctx, a.db, i.request)
	i.expect(failure != nil, problem{
		text: fmt.Sprintf("the operation was refused: %v", failure != nil), hint: "Refused has to ask for something that your service refuses",
	})
	if failure != nil {
		v.fault(i.Point, i.outcome)
	}
	events, err := v.known(ctx)
	if err != nil {
		return err
	}
	_, rows, err := v.eventOf(ctx, i.request)
	came := len(without(events, i.before))
	i.expect(rows == 0, problem{text: fmt.Sprintf("%d business rows of it", rows), hint: hints["I1"]})
	i.expect(came == 0, problem{text: fmt.Sprintf("%d events of it", came), hint: hints["I1"]})
	if err != nil {
		return err
	}
	return i.heal(ctx)
}
