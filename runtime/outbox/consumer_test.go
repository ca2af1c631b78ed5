package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func insertJob(ctx context.Context, tx *outbox.Tx, _ outbox.Message[map[string]any]) error {
	_, err := tx.ExecContext(ctx, "INSERT job")
	return err
}

func TestConsumerCommitsDedupAndEffectTogether(t *testing.T) {
	p := newPlanner(insertJob, nil)
	p.handle(t, testEnvelope(), outbox.Applied)
	want := []string{"BEGIN READ COMMITTED", "INSERT dedup", "INSERT job", "COMMIT"}
	if got := p.db.statements(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if len(p.inbox.dedup) != 1 || p.inbox.dedup[0].Outcome != 1 || p.inbox.dedup[0].ConsumerName != "planner" {
		t.Errorf("%+v", p.inbox.dedup)
	}
}

func TestOnlyOurConstraintIsADuplicate(t *testing.T) {
	cases := []struct {
		name      string
		statement string
		err       error
		duplicate bool
	}{
		{"our constraint", "INSERT dedup", errDuplicate, true},
		{"another constraint", "INSERT dedup", errOtherUnique, false},
		{"foreign key", "INSERT dedup", errForeignKey, false},
		{"connection", "INSERT dedup", errConnection, false},
		{"deadlock", "INSERT dedup", errDeadlock, false},
		{"our constraint named by the handler's own insert", "INSERT job", errDuplicate, false},
		{"foreign key in the handler", "INSERT job", errForeignKey, false},
		{"commit unknown", "COMMIT", errConnection, false},
		{"commit refused", "COMMIT", errDeadlock, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPlanner(insertJob, nil)
			p.db.answer[c.statement] = c.err
			handling, err := p.Handle(t.Context(), testEnvelope())
			if c.duplicate {
				if handling != outbox.Duplicate || err != nil {
					t.Errorf("got %v, %v; want a duplicate", handling, err)
				}
			} else if handling != outbox.NotHandled || !errors.Is(err, c.err) {
				t.Errorf("got %v, %v; want the error, so that nothing is acknowledged", handling, err)
			}
			// What is committed after an error is its count alone.
			sent := p.db.statements()
			if i := slices.Index(sent, "COMMIT"); c.statement != "COMMIT" && i >= 0 && sent[i-1] != "READ attempts" {
				t.Errorf("committed after an error: %q", sent)
			}
			stats := p.Stats()
			if stats.Attempts != 1 || (stats.Duplicates == 1) != c.duplicate || (stats.Errors == 1) == c.duplicate {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

func TestCommitUnknownOfAConsumerIsAnError(t *testing.T) {
	p := newPlanner(succeed, nil)
	p.db.answer["COMMIT"] = errConnection
	_, err := p.Handle(t.Context(), testEnvelope())
	if !errors.As(err, new(*outbox.CommitUnknownError)) {
		t.Errorf("got %v, want a CommitUnknownError", err)
	}
}

func TestEventWithoutAnID(t *testing.T) {
	p := newPlanner(succeed, nil)
	e := testEnvelope()
	e.ID = [16]byte{}
	if handling, err := p.Handle(t.Context(), e); handling != outbox.NotHandled || !errors.Is(err, outbox.ErrNotEventID) {
		t.Errorf("got %v, %v", handling, err)
	}
	if sent := p.db.statements(); len(sent) != 0 {
		t.Errorf("sent %q", sent)
	}
}

func TestConsumerSettings(t *testing.T) {
	_, db := newFakeDB()
	spec := plannerSpec(&fakeInbox{}, succeed)
	if got := outbox.NewConsumer(db, spec, nil).Limits(); got != (outbox.Limits{Concurrency: 1, Timeout: 20 * time.Second}) {
		t.Errorf("without any: %+v", got)
	}
	spec.Defaults = outbox.ConsumerConfig{Concurrency: 8, Timeout: time.Minute}
	if got := outbox.NewConsumer(db, spec, nil).Limits(); got != (outbox.Limits{Concurrency: 8, Timeout: time.Minute}) {
		t.Errorf("of events.yaml: %+v", got)
	}
	cfg := outbox.ConsumerConfig{Concurrency: 2}
	if got := outbox.NewConsumer(db, spec, &cfg).Limits(); got != (outbox.Limits{Concurrency: 2, Timeout: time.Minute}) {
		t.Errorf("with one of its own: %+v", got)
	}
}

// NewConsumer can't refuse a setting: what is below zero isn't one, here or in events.yaml.
func TestConsumerSettingsBelowZero(t *testing.T) {
	below := outbox.ConsumerConfig{Concurrency: -1, Timeout: -1, Attempts: -1, Backoff: -time.Second, MaxBackoff: -1}
	p := newPlanner(returns(errRefused), func(s *outbox.ConsumerSpec, c *outbox.ConsumerConfig) {
		s.Defaults = below
		log := c.Logger
		*c = below
		c.Logger = log
	})
	if got := p.Limits(); got != (outbox.Limits{Concurrency: 1, Timeout: 20 * time.Second}) {
		t.Errorf("%+v", got)
	}
	e := testEnvelope()
	for n := 1; n < 10; n++ {
		_, err := p.Handle(t.Context(), e)
		var h *outbox.HandlingError
		if !errors.As(err, &h) || h.Attempts != n || h.Again < time.Second<<(n-1)/2 {
			t.Fatalf("attempt %d: %#v", n, err)
		}
	}
	p.handle(t, e, outbox.Parked)
}

// A stale event leaves its dedup row, and nothing else; one of the same version as
// the last is not stale.
func TestStaleEventIsSkipped(t *testing.T) {
	p := newPlanner(insertJob, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) { s.DropStale = true })
	at := func(version int64) outbox.Envelope {
		e := testEnvelope()
		e.AggregateVersion = version
		return e
	}
	p.inbox.version = 3
	p.handle(t, at(2), outbox.Skipped)
	want := []string{"BEGIN READ COMMITTED", "ADD version", "SELECT version", "INSERT dedup", "COMMIT"}
	if got := p.db.statements(); !slices.Equal(got, want) || p.inbox.dedup[0].Outcome != uint8(outbox.Skipped) {
		t.Errorf("sent %q with %+v, want %q", got, p.inbox.dedup, want)
	}
	p.handle(t, at(3), outbox.Applied)
	p.handle(t, at(5), outbox.Applied)
	p.handle(t, at(4), outbox.Skipped)
	if len(p.inbox.versions) != 2 || p.inbox.version != 5 || string(p.inbox.versions[1].AggregateID) != "7" {
		t.Errorf("versions %+v", p.inbox.versions)
	}
	if s := p.Stats(); s.Skipped != 2 || s.Applied != 2 {
		t.Errorf("%+v", s)
	}
}

// When the versions can't be kept nothing is applied.
func TestVersionsThatCannotBeKept(t *testing.T) {
	for _, statement := range []string{"ADD version", "SELECT version", "SET version"} {
		p := newPlanner(insertJob, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) { s.DropStale = true })
		p.db.answer[statement] = errForeignKey
		if handling, err := p.Handle(t.Context(), testEnvelope()); handling != outbox.NotHandled || !errors.Is(err, errForeignKey) {
			t.Errorf("%s: %v, %v", statement, handling, err)
		}
		sent := p.db.statements()
		if commit := slices.Index(sent, "COMMIT"); commit >= 0 && commit < slices.Index(sent, "ROLLBACK") {
			t.Errorf("%s: sent %q", statement, sent)
		}
	}
}

// Deadlocks are nobody's fault: the transaction is repeated at once.
func TestDeadlockIsRepeatedAtOnce(t *testing.T) {
	for deadlocks, begins := range map[int]int{1: 2, 2: 3} {
		calls := 0
		p := newPlanner(func(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error {
			if calls++; calls <= deadlocks {
				return errDeadlock
			}
			return nil
		}, nil)
		p.handle(t, testEnvelope(), outbox.Applied)
		n := 0
		for _, s := range p.db.statements() {
			if s == "BEGIN READ COMMITTED" {
				n++
			}
		}
		if n != begins || p.inbox.attempts != 0 {
			t.Errorf("%d deadlocks: %d transactions, %d attempts counted", deadlocks, n, p.inbox.attempts)
		}
	}
}
