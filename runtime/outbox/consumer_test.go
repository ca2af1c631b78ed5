package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func newTestConsumer(db *outbox.DB, effect func(tx *outbox.Tx) error) *outbox.Consumer {
	return outbox.NewConsumer(db, outbox.ConsumerSpec{
		Name:       "planner",
		Constraint: "uq_test_identity",
		Inbox:      fakeInbox{},
		Routes: map[string]outbox.Route{
			"order.accepted": outbox.On(
				func(version int, data []byte) (map[string]any, error) {
					if version != 1 {
						return nil, outbox.UnknownSchemaVersion("order.accepted", version)
					}
					return outbox.DecodePayload[map[string]any](data)
				},
				func(_ context.Context, tx *outbox.Tx, m outbox.Message[map[string]any]) error { return effect(tx) },
			),
		},
	}, nil)
}

func testEnvelope() outbox.Envelope {
	return outbox.Envelope{ID: outbox.NewEventID(), Type: "order.accepted", SchemaVersion: 1, Data: []byte(`{"a":1}`)}
}

func TestConsumerCommitsDedupAndEffectTogether(t *testing.T) {
	fake, db := newFakeDB()
	c := newTestConsumer(db, func(tx *outbox.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT job")
		return err
	})
	handling, err := c.Handle(t.Context(), testEnvelope())
	if handling != outbox.Applied || err != nil {
		t.Errorf("got %v, %v", handling, err)
	}
	want := []string{"BEGIN READ COMMITTED", "INSERT dedup", "INSERT job", "COMMIT"}
	if got := fake.statements(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
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
			fake, db := newFakeDB()
			fake.answer[c.statement] = c.err
			consumer := newTestConsumer(db, func(tx *outbox.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT job")
				return err
			})
			handling, err := consumer.Handle(t.Context(), testEnvelope())
			if c.duplicate {
				if handling != outbox.Duplicate || err != nil {
					t.Errorf("got %v, %v; want a duplicate", handling, err)
				}
			} else if handling != outbox.NotHandled || !errors.Is(err, c.err) {
				t.Errorf("got %v, %v; want the error, so that nothing is acknowledged", handling, err)
			}
			if c.statement != "COMMIT" && slices.Contains(fake.statements(), "COMMIT") {
				t.Error("committed after an error")
			}
			stats := consumer.Stats()
			if stats.Attempts != 1 || (stats.Duplicates == 1) != c.duplicate || (stats.Errors == 1) == c.duplicate {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

func TestCommitUnknownOfAConsumerIsAnError(t *testing.T) {
	fake, db := newFakeDB()
	fake.answer["COMMIT"] = errConnection
	_, err := newTestConsumer(db, func(*outbox.Tx) error { return nil }).Handle(t.Context(), testEnvelope())
	var unknown *outbox.CommitUnknownError
	if !errors.As(err, &unknown) {
		t.Errorf("got %v, want a CommitUnknownError", err)
	}
}

func TestConsumerRefusesWhatItCannotRead(t *testing.T) {
	cases := map[string]func(*outbox.Envelope){
		"another type":         func(e *outbox.Envelope) { e.Type = "order.deleted" },
		"another version":      func(e *outbox.Envelope) { e.SchemaVersion = 2 },
		"no JSON":              func(e *outbox.Envelope) { e.Data = []byte("{") },
		"JSON of another form": func(e *outbox.Envelope) { e.Data = []byte(`"x"`) },
		"no event id":          func(e *outbox.Envelope) { e.ID = [16]byte{} },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			fake, db := newFakeDB()
			e := testEnvelope()
			spoil(&e)
			handling, err := newTestConsumer(db, func(*outbox.Tx) error { t.Error("handled"); return nil }).Handle(t.Context(), e)
			if handling != outbox.NotHandled || err == nil {
				t.Errorf("got %v, %v", handling, err)
			}
			if len(fake.statements()) != 0 {
				t.Errorf("a transaction was opened for it: %q", fake.statements())
			}
		})
	}
}
