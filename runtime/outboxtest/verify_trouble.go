package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// troubles are the errors that were seen, the last of each kind. They are for the test's output:
// the record has none of their texts.
type troubles struct {
	handlers map[eventAt]trouble
	brokers  map[string]string // what Subscribe returned, by the consumer's name
	relay    string            // of a claim, a publish or a mark
	parked   map[eventAt]string
}

// trouble is what a consumer has with an event.
type trouble struct {
	times  int    // Handle returned an error
	failed int    // those for which the handler is to blame
	last   string // the last error
}

func newTroubles() troubles {
	return troubles{handlers: map[eventAt]trouble{}, brokers: map[string]string{}, parked: map[eventAt]string{}}
}

func (v *verification) noteHandlerError(at eventAt, err error) {
	var handling *outbox.HandlingError
	blamed := true
	if errors.As(err, &handling) {
		blamed, err = handling.Kind == outbox.FailureFailed, handling.Cause
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.handlers[at]
	t.times++
	if blamed {
		t.failed++
	}
	t.last = v.shown(err)
	v.handlers[at] = t
}

func (v *verification) noteBrokerError(consumer string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.brokers[consumer] = v.shown(err)
}

func (v *verification) noteRelayError(doing string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.relay = doing + ": " + v.shown(err)
}

func (v *verification) forgetRelayError() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.relay = ""
}

// relayTrouble is empty when no relay had an error.
func (v *verification) relayTrouble() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.relay == "" {
		return ""
	}
	return "the relay's last error: " + v.relay
}

// readReasons reads why events were parked.
func (v *verification) readReasons(ctx context.Context) error {
	tables, err := tablesLike(ctx, v.db, parkedTable)
	if err != nil {
		return err
	}
	for at := range v.parked {
		for _, table := range tables {
			var reason string
			err := v.db.QueryRowContext(ctx, "SELECT reason FROM "+quoteName(table)+" WHERE consumer_name = ? AND event_id = ?", at.consumer, at.event.String()).Scan(&reason)
			switch {
			case err == nil:
				v.parked[at] = v.shown(errors.New(reason))
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
	}
	return nil
}

// shown is an error in one line, without private values.
func (v *verification) shown(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, private := range v.cfg.Private {
		text = strings.ReplaceAll(text, private, "[private]")
	}
	return text
}

// troubleOf says why a consumer may not be done with an event. It reports false for one that
// was handled without an error: then the acknowledgement is what is wrong.
func (v *verification) troubleOf(at eventAt) (p problem, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p.invariant = "I4"
	t := v.handlers[at]
	delivered := slices.ContainsFunc(v.hist.Deliveries, func(d history.Delivery) bool {
		return d.EventID == at.event && d.Consumer == at.consumer
	})
	why := "it was never handed to it"
	switch broker := v.brokers[at.consumer]; {
	case t.times > 0:
		why, p.detail = fmt.Sprintf("it has failed %d times", t.times), "its last error: "+t.last
		p.hint = "it has to succeed when there is no fault, or none any more; Patience has to be longer than its `retry.backoff`"
	case delivered:
		return p, false
	case broker != "":
		why, p.detail, p.hint = "its subscription ended", "the error: "+broker, "does Subscribe reach the broker?"
	default:
		p.hint = "do Publisher and Subscribe, and the consumer's topology, belong to the same broker?"
	}
	p.text = fmt.Sprintf("consumer %s is not done with the event: %s", at.consumer, why)
	return p, true
}

// hopeless reports whether a handler has failed so often on an event without any fault that
// there is no use in waiting.
func (v *verification) hopeless(known map[uuid.UUID]bool) bool {
	const times = 3
	v.mu.Lock()
	defer v.mu.Unlock()
	for at, t := range v.handlers {
		if !known[at.event] && t.failed >= times {
			return true
		}
	}
	return false
}
