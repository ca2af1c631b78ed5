package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// beforeCommit lets a writer die when COMMIT is its next statement.
func (v *verification) beforeCommit(ctx context.Context) error {
	i, err := v.inject(ctx, required(record.BeforeCommit), record.OutcomeCutRequest)
	if err != nil {
		return err
	}
	outcome, err := i.writeBroken(ctx, mysqlproxy.CutRequest)
	if err != nil {
		return err
	}
	i.expect(outcome != outbox.Committed, "the writer was told %v", outcome)
	_, rows, err := v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	events, err := v.known(ctx)
	if err != nil {
		return err
	}
	came := without(events, i.before)
	i.expect(rows == 0, "%d business rows after the writer's death", rows)
	i.expect(len(came) == 0, "%d events after the writer's death", len(came))
	if rows == 0 {
		if err := i.repeat(ctx); err != nil {
			return err
		}
	}
	return i.heal(ctx)
}

// commitReplyLost lets a writer die when the server has committed and its reply is on the way.
func (v *verification) commitReplyLost(ctx context.Context) error {
	i, err := v.inject(ctx, required(record.CommitReplyLost), record.OutcomeCutReply)
	if err != nil {
		return err
	}
	outcome, err := i.writeBroken(ctx, mysqlproxy.CutReply)
	if err != nil {
		return err
	}
	i.expect(outcome == outbox.Unknown, "the writer was told %v", outcome)
	id, rows, err := v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	i.expect(rows == 1, "%d business rows after the lost reply", rows)
	if err := i.reconcile(ctx, id); err != nil {
		return err
	}
	if err := i.repeat(ctx); err != nil {
		return err
	}
	return i.heal(ctx)
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
			i.problems = append(i.problems,
				"no COMMIT followed the event's insert on its connection: the event is not in a transaction with the business change")
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
	i.expect(right, "Reconcile found the business row with its event: %v", right)
	i.v.note(func(h *history.History) {
		h.Requests[len(h.Requests)-1].Reconciled = &found.Found
	})
	return nil
}

// beforeClaim lets a writer die after its commit, while there is no relay.
func (v *verification) beforeClaim(ctx context.Context) error {
	i, err := v.inject(ctx, required(record.BeforeClaim), record.OutcomeKill)
	if err != nil {
		return err
	}
	a, err := v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	outcome, err := i.write(ctx, a)
	if outcome != outbox.Committed {
		return errors.Join(errors.New("Write of a request without any fault"), err)
	}
	a.die()
	v.fault(i.Point, i.outcome)
	id, _, err := v.eventOf(ctx, i.request)
	if err != nil {
		return err
	}
	state, err := v.rowState(ctx, id.String())
	i.expect(err == nil && state.status != "", "the event is %s while no relay runs", state.status)
	return i.heal(ctx)
}

// refused has the user's business operation fail.
func (v *verification) refused(ctx context.Context) error {
	if v.cfg.Refused == nil {
		return nil
	}
	i, err := v.inject(ctx, record.Required{
		ID: "business-error", Title: "the business operation is refused", Point: "business",
		Expected: "its transaction is rolled back: neither a business row nor an event",
	}, "error")
	if err != nil {
		return err
	}
	a, err := v.newActor(ctx, "writer")
	if err != nil {
		return err
	}
	defer a.stop()
	failure := v.cfg.Refused(ctx, a.db, i.request)
	i.expect(failure != nil, "the operation was refused: %v", failure != nil)
	if failure != nil {
		v.fault(i.Point, i.outcome)
	}
	events, err := v.known(ctx)
	if err != nil {
		return err
	}
	_, rows, err := v.eventOf(ctx, i.request)
	i.expect(rows == 0, "%d business rows of it", rows)
	i.expect(len(without(events, i.before)) == 0, "%d events of it", len(without(events, i.before)))
	if err != nil {
		return err
	}
	return i.heal(ctx)
}
