package outbox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// order is a payload that validates itself.
type order struct{ Total int }

func (o order) Validate() error {
	if o.Total < 0 {
		return errors.New("total: below zero")
	}
	return nil
}

// upcasts has a planner whose version 1 takes an upcaster, which method is.
func upcasts(method func(old, next order) (order, error)) planner {
	return newPlanner(succeed, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) {
		s.Routes["order.accepted"] = outbox.On(
			func(_ int, data []byte) (order, error) {
				old, err := outbox.DecodePayload[order](data)
				if err != nil {
					return order{}, err
				}
				return outbox.Upcast("order.accepted", 1, 2, old, order{Total: old.Total}, method)
			},
			func(_ context.Context, _ *outbox.Tx, m outbox.Message[order]) error {
				if m.Payload.Total != 7 {
					return errors.New("not upcast")
				}
				return nil
			})
	})
}

// An upcaster ends the same at each delivery: what it refuses is parked at once, with the
// step in the reason, and can be redriven by a build whose upcaster does better.
func TestUpcastFailuresAreParkedAtOnce(t *testing.T) {
	const step = "upcast order.accepted from version 1 to 2: "
	for want, method := range map[string]func(old, next order) (order, error){
		step + "no rate for that day":                          func(order, order) (order, error) { return order{}, errors.New("no rate for that day") },
		step + "panic with a string":                           func(order, order) (order, error) { panic("secret") },
		step + "runtime.Goexit in place of a return":           func(order, order) (order, error) { runtime.Goexit(); return order{}, nil },
		step + "the result is not valid: total: below zero":    func(order, order) (order, error) { return order{Total: -1}, nil },
		step + "an error of type outbox_test.badError, whose ": func(order, order) (order, error) { return order{}, badError{} },
	} {
		p := upcasts(method)
		e := testEnvelope()
		e.Data = []byte(`{"Total":7}`)
		p.handle(t, e, outbox.Parked)
		if len(p.inbox.parked) != 1 || p.inbox.attempts != 0 {
			t.Errorf("%s: parked %v, %d attempts", want, p.inbox.parked, p.inbox.attempts)
			continue
		}
		if row := p.inbox.parked[0]; row.Kind != "payload" || !strings.HasPrefix(row.Reason, want) || string(row.Body) != string(e.Data) {
			t.Errorf("%+v, want %s", row, want)
		}
		panics := strings.Contains(want, "panic with") || strings.Contains(want, "Goexit")
		if log := p.log.String(); panics != strings.Contains(log, "a handler panicked") || strings.Contains(log, "secret") {
			t.Errorf("%s: log %s", want, log)
		}
	}
	p := upcasts(func(_, next order) (order, error) { return next, nil })
	e := testEnvelope()
	e.Data = []byte(`{"Total":7}`)
	p.handle(t, e, outbox.Applied)
}

type badError struct{}

func (badError) Error() string { panic("secret") }

// A default that its type can't read is an error that names the field, without the default.
func TestDefault(t *testing.T) {
	var d outbox.Defaults
	if got := outbox.Default[outbox.Date](&d, "day", `"2026-01-02"`); got.String() != "2026-01-02" || d.Err() != nil {
		t.Error(got, d.Err())
	}
	outbox.Default[outbox.Date](&d, "day", `"secret"`)
	outbox.Default[int](&d, "count", `"secret"`)
	const want = `upcast: the default of day: not a date of the form 2006-01-02; the default of count: field "": a JSON string does not fit`
	if err := d.Err(); err == nil || err.Error() != want {
		t.Error(err)
	}
}
