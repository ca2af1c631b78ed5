package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

type handlingCase struct {
	name      string
	statement string // that fails with err
	err       error
	do        effect // the handler; insertJob if nil
	kind      outbox.FailureKind
	counted   bool
	again     time.Duration // at most, and at least half of it; 0 is not looked at
}

func returns(err error) effect {
	return func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { return err }
}

// swallow drops the error of its statement.
func swallow(ctx context.Context, tx *outbox.Tx, _ outbox.Message[map[string]any]) error {
	_, _ = tx.ExecContext(ctx, "INSERT job")
	return nil
}

// endsItsOwnContext runs a statement under a context of its own that has ended.
func endsItsOwnContext(ctx context.Context, tx *outbox.Tx, _ outbox.Message[map[string]any]) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := tx.ExecContext(ctx, "INSERT job")
	return err
}

func panics(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { panic("secret") }

func handlingCases() []handlingCase {
	const (
		failed      = outbox.FailureFailed
		unavailable = outbox.FailureUnavailable
		heldBack    = outbox.FailureHeldBack
		begin       = "BEGIN READ COMMITTED"
	)
	return []handlingCase{
		{"no transaction: connection", begin, errConnection, nil, unavailable, false, time.Second},
		{"no transaction: anything else", begin, errForeignKey, nil, unavailable, false, time.Second},
		{"dedup row: connection", "INSERT dedup", errConnection, nil, unavailable, false, time.Second},
		{"dedup row: read-only", "INSERT dedup", errReadOnly, nil, unavailable, false, time.Second},
		{"dedup row: another error", "INSERT dedup", errForeignKey, nil, unavailable, false, time.Second},
		{"dedup row: a missing table", "INSERT dedup", errRefused, nil, unavailable, false, time.Second},
		{"dedup row: another constraint", "INSERT dedup", errOtherUnique, nil, unavailable, false, time.Second},
		{"dedup row: deadlocks", "INSERT dedup", errDeadlock, nil, heldBack, false, time.Second},
		{"dedup row: in other hands", "INSERT dedup", errLockTimeout, nil, heldBack, false, time.Second},
		{"handler: its own error", "", nil, returns(errors.New("no such customer")), failed, true, time.Second},
		{"handler: a connection of its own", "", nil, returns(errConnection), failed, true, time.Second},
		{"handler: the transaction's connection, by a Scan", "DO 1", errConnection, returns(errConnection), unavailable, false, time.Second},
		{"handler: a read-only server of its own", "", nil, returns(errReadOnly), failed, true, time.Second},
		{"handler: the transaction's is read-only, by a statement of its own", "DO 1", errReadOnly, returns(errReadOnly), unavailable, false, time.Second},
		{"handler: connection", "INSERT job", errConnection, nil, unavailable, false, time.Second},
		{"handler: connection, swallowed", "INSERT job", errConnection, swallow, unavailable, false, time.Second},
		{"handler: read-only", "INSERT job", errReadOnly, nil, unavailable, false, time.Second},
		{"handler: deadlocks", "INSERT job", errDeadlock, nil, failed, true, time.Second},
		{"handler: lock timeout", "INSERT job", errLockTimeout, nil, failed, true, time.Second},
		{"handler: lock timeout, swallowed", "INSERT job", errLockTimeout, swallow, failed, true, time.Second},
		{"handler: foreign key", "INSERT job", errForeignKey, nil, failed, true, time.Second},
		{"handler: our constraint", "INSERT job", errDuplicate, nil, failed, true, time.Second},
		{"handler: a context of its own", "", nil, endsItsOwnContext, failed, true, time.Second},
		{"handler: panic", "", nil, panics, failed, true, time.Second},
		{"commit: connection", "COMMIT", errConnection, nil, unavailable, false, time.Second},
		{"commit: read-only", "COMMIT", errReadOnly, nil, unavailable, false, time.Second},
		{"count: connection", "COUNT failure", errConnection, returns(errForeignKey), unavailable, false, time.Second},
		{"count: deadlock", "COUNT failure", errDeadlock, returns(errForeignKey), heldBack, false, time.Second},
		{"count: lock timeout", "COUNT failure", errLockTimeout, returns(errForeignKey), heldBack, false, time.Second},
		{"count: refused", "COUNT failure", errRefused, returns(errForeignKey), failed, false, time.Minute},
		{"read: connection", "READ attempts", errConnection, returns(errForeignKey), unavailable, false, time.Second},
	}
}

// Whose fault an error is: what is counted, what pauses the subscription, what waits.
func TestWhatIsCounted(t *testing.T) {
	for _, c := range handlingCases() {
		t.Run(c.name, func(t *testing.T) {
			do := c.do
			if do == nil {
				do = insertJob
			}
			p := newPlanner(do, nil)
			if c.err != nil {
				p.db.answer[c.statement] = c.err
			}
			e := testEnvelope()
			handling, err := p.Handle(t.Context(), e)
			var h *outbox.HandlingError
			if handling != outbox.NotHandled || !errors.As(err, &h) {
				t.Fatalf("got %v, %v", handling, err)
			}
			if h.Kind != c.kind || h.EventID != e.ID || h.Consumer != "planner" || h.Attempts != countOf(c.counted) {
				t.Errorf("got %v, %d attempts; want %v, counted %v", h.Kind, h.Attempts, c.kind, c.counted)
			}
			sent := p.db.statements()
			if counted := slices.Contains(sent, "READ attempts") && sent[len(sent)-1] == "COMMIT"; counted != c.counted {
				t.Errorf("sent %q; want counted %v", sent, c.counted)
			}
			if h.Again > c.again || h.Again < c.again/2 {
				t.Errorf("again after %v, want about %v", h.Again, c.again)
			}
			r := outbox.RedeliveryOf(err)
			if r.Pause != (c.kind == outbox.FailureUnavailable) || r.After != h.Again {
				t.Errorf("%+v", r)
			}
			if strings.Contains(err.Error()+p.log.String(), "secret") {
				t.Errorf("a value is in %q or %q", err, p.log)
			}
		})
	}
}

func countOf(counted bool) int {
	if counted {
		return 1
	}
	return 0
}

func TestRedeliveryOfAnyError(t *testing.T) {
	if r := outbox.RedeliveryOf(errors.New("x")); r != (outbox.Redelivery{}) {
		t.Errorf("%+v", r)
	}
}

// waits until its context ends.
func waits(ctx context.Context, _ *outbox.Tx, _ outbox.Message[map[string]any]) error {
	<-ctx.Done()
	return ctx.Err()
}

// A handler that takes too long has failed; one that says so itself too, and one
// that doesn't look at its context.
func TestTimeoutOfAHandlerIsCounted(t *testing.T) {
	ignores := func(ctx context.Context, _ *outbox.Tx, _ outbox.Message[map[string]any]) error {
		<-ctx.Done()
		return nil
	}
	for name, do := range map[string]effect{"waits": waits, "ignores its context": ignores} {
		p := newPlanner(do, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Timeout = 300 * time.Millisecond })
		_, err := p.Handle(t.Context(), testEnvelope())
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Kind != outbox.FailureFailed || h.Attempts != 1 || !strings.Contains(err.Error(), "not finished in its time") {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.inbox.reasons) != 1 || !strings.Contains(p.inbox.reasons[0], "not finished in its time") {
			t.Errorf("%s: reasons %q", name, p.inbox.reasons)
		}
	}
}

// Nor is it a matter of luck: a handler that returns nil after its time has failed,
// however soon after.
func TestLateHandlerIsNeverCommitted(t *testing.T) {
	p := newPlanner(func(ctx context.Context, _ *outbox.Tx, _ outbox.Message[map[string]any]) error {
		for done := ctx.Done(); ; { // awake, so as to be faster than database/sql
			select {
			case <-done:
				return nil
			default:
			}
		}
	}, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Timeout, c.Attempts = time.Millisecond, 1000 })
	for range 300 {
		if handling, err := p.Handle(t.Context(), testEnvelope()); handling != outbox.NotHandled || err == nil {
			t.Fatalf("got %v, %v", handling, err)
		}
	}
}

// Time that passes before the handler has the event is not the event's fault.
func TestTimeoutBeforeTheHandlerIsNotCounted(t *testing.T) {
	inTime := func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Timeout = time.Millisecond }
	p := newPlanner(succeed, inTime)
	p.inbox.before = func(ctx context.Context, statement string) error {
		if statement != "INSERT dedup" {
			return nil
		}
		<-ctx.Done() // the row is in another transaction's hands
		return ctx.Err()
	}
	checkNotCounted(t, p, outbox.FailureHeldBack)

	p = newPlanner(succeed, func(s *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { s.DropStale = true; inTime(s, c) })
	p.inbox.before = func(ctx context.Context, statement string) error {
		if statement != "SELECT version" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	checkNotCounted(t, p, outbox.FailureHeldBack)

	fake, db := newFakeDB() // a pool with no connection to give
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p = newPlanner(succeed, nil)
	p.Consumer, p.db = outbox.NewConsumer(db, plannerSpec(p.inbox, succeed), &outbox.ConsumerConfig{Timeout: time.Millisecond}), fake
	checkNotCounted(t, p, outbox.FailureUnavailable)
}

func checkNotCounted(t *testing.T, p planner, kind outbox.FailureKind) {
	t.Helper()
	_, err := p.Handle(t.Context(), testEnvelope())
	var h *outbox.HandlingError
	if !errors.As(err, &h) || h.Kind != kind || h.Attempts != 0 || p.inbox.attempts != 0 {
		t.Errorf("got %v of kind %v, %d counted; want %v", err, h.Kind, p.inbox.attempts, kind)
	}
}

// A stop counts nothing, whatever the handler makes of it.
func TestStopIsNotCounted(t *testing.T) {
	for name, answer := range map[string]error{"its own error": errors.New("stopped"), "permanent": outbox.Permanent(errors.New("stopped"))} {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { cancel(); return answer }, nil)
		_, err := p.Handle(ctx, testEnvelope())
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Kind != outbox.FailureHeldBack || p.inbox.attempts != 0 || len(p.inbox.parked) != 0 {
			t.Errorf("%s: %v, %d counted, %d parked", name, err, p.inbox.attempts, len(p.inbox.parked))
		}
	}
}

// A failure just before a stop is written down all the same.
func TestCountOutlivesAStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := newPlanner(returns(errForeignKey), nil)
	p.inbox.before = func(ctx context.Context, statement string) error {
		if statement == "COUNT failure" {
			cancel()
		}
		return ctx.Err()
	}
	_, err := p.Handle(ctx, testEnvelope())
	var h *outbox.HandlingError
	if !errors.As(err, &h) || h.Attempts != 1 || p.inbox.attempts != 1 {
		t.Errorf("%v, %d counted", err, p.inbox.attempts)
	}
}

// Waits grow with the attempts, up to the longest.
func TestWaitsGrow(t *testing.T) {
	p := newPlanner(returns(errForeignKey), func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Attempts = 100 })
	e := testEnvelope()
	for n, longest := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		_, err := p.Handle(t.Context(), e)
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Attempts != n+1 || h.Again > longest*time.Second || h.Again < longest*time.Second/2 {
			t.Errorf("attempt %d: %v, again after %v", n+1, err, h.Again)
		}
	}
}
