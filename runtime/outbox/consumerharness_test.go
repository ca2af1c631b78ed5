package outbox_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// planner is a consumer on a fake database.
type planner struct {
	*outbox.Consumer
	db    *fakeDB
	inbox *fakeInbox
	log   *strings.Builder
}

type effect = func(ctx context.Context, tx *outbox.Tx, m outbox.Message[map[string]any]) error

func succeed(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error { return nil }

func plannerSpec(inbox outbox.Inbox, do effect) outbox.ConsumerSpec {
	return outbox.ConsumerSpec{
		Name:       "planner",
		Constraint: "uq_test_identity",
		Inbox:      inbox,
		Routes: map[string]outbox.Route{
			"order.accepted": outbox.On(
				func(version int, data []byte) (map[string]any, error) {
					if version != 1 {
						return nil, outbox.UnknownSchemaVersion("order.accepted", version)
					}
					return outbox.DecodePayload[map[string]any](data)
				}, do),
		},
	}
}

// newPlanner makes a consumer that parks at the third failure. change may be nil.
func newPlanner(do effect, change func(*outbox.ConsumerSpec, *outbox.ConsumerConfig)) planner {
	fake, db := newFakeDB()
	p := planner{db: fake, inbox: &fakeInbox{}, log: &strings.Builder{}}
	spec := plannerSpec(p.inbox, do)
	cfg := outbox.ConsumerConfig{
		Attempts: 3, Backoff: time.Second, MaxBackoff: time.Minute,
		Logger: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	if change != nil {
		change(&spec, &cfg)
	}
	p.Consumer = outbox.NewConsumer(db, spec, &cfg)
	return p
}

func testEnvelope() outbox.Envelope {
	return outbox.Envelope{
		ID: outbox.NewEventID(), Source: "orders", Type: "order.accepted", SchemaVersion: 1,
		AggregateType: "order", AggregateID: "7", AggregateVersion: 4, Data: []byte(`{"a":1}`),
	}
}

// handle handles an event and wants an end without an error.
func (p planner) handle(t *testing.T, e outbox.Envelope, want outbox.Handling) {
	t.Helper()
	if handling, err := p.Handle(t.Context(), e); handling != want || err != nil {
		t.Errorf("got %v, %v; want %v", handling, err, want)
	}
}
