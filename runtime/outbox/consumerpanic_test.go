package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// textError panics when it is a nil pointer.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

// brokenChain has a text, and panics for who looks at what it wraps.
type brokenChain struct{}

func (brokenChain) Error() string { return "broken" }
func (brokenChain) Unwrap() error { panic("secret") }

func goexits(context.Context, *outbox.Tx, outbox.Message[map[string]any]) error {
	runtime.Goexit()
	return nil
}

// What a handler returns, or does in place of it, is an attempt like any other.
func TestErrorsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		do     effect
		reason string
	}{
		"a nil pointer":         {returns((*textError)(nil)), "an error of type *outbox_test.textError, whose methods panic"},
		"a nil pointer, joined": {returns(errors.Join((*textError)(nil))), "an error of type *errors.joinError, whose methods panic"},
		"a broken chain":        {returns(brokenChain{}), "an error of type outbox_test.brokenChain, whose methods panic"},
		"wrapped":               {returns(fmt.Errorf("charge: %w", brokenChain{})), "an error of type *fmt.wrapError, whose methods panic"},
		"Goexit":                {goexits, "runtime.Goexit in place of a return"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(c.do, func(_ *outbox.ConsumerSpec, c *outbox.ConsumerConfig) { c.Attempts = 2 })
			e := testEnvelope()
			var h *outbox.HandlingError
			if handling, err := p.Handle(t.Context(), e); handling != outbox.NotHandled || !errors.As(err, &h) || h.Attempts != 1 {
				t.Fatalf("got %v, %v", handling, err)
			}
			p.handle(t, e, outbox.Parked)
			if row := p.inbox.parked[0]; row.Kind != "attempts" || row.Reason != c.reason {
				t.Errorf("parked %s: %q, want %q", row.Kind, row.Reason, c.reason)
			}
			if strings.Contains(p.log.String(), "secret") {
				t.Errorf("log %q", p.log)
			}

			row := p.inbox.parkedRow()
			p.inbox.row = &row
			if handling, err := p.Redrive(t.Context(), e.ID); handling != outbox.NotHandled || !errors.As(err, &h) || len(p.inbox.failed) != 1 {
				t.Errorf("redrive: %v, %v, noted %v", handling, err, p.inbox.failed)
			}
		})
	}
}

// The handler's error can be found in what Handle returns.
func TestErrorOfAHandlerIsWrapped(t *testing.T) {
	own := &textError{"no such customer"}
	p := newPlanner(returns(own), nil)
	_, err := p.Handle(t.Context(), testEnvelope())
	if got := new(textError); !errors.As(err, &got) || got != own {
		t.Errorf("%v", err)
	}
}

type badDecoder struct{}

func (*badDecoder) UnmarshalJSON(b []byte) error { _ = b[100]; return nil }

// A payload type that panics can't read the payload.
func TestPanicOfADecoder(t *testing.T) {
	p := newPlanner(succeed, func(s *outbox.ConsumerSpec, _ *outbox.ConsumerConfig) {
		s.Routes["order.accepted"] = outbox.On(
			func(_ int, data []byte) (badDecoder, error) { return outbox.DecodePayload[badDecoder](data) },
			func(context.Context, *outbox.Tx, outbox.Message[badDecoder]) error { return nil })
	})
	e := testEnvelope()
	p.handle(t, e, outbox.Parked)
	row := p.inbox.parkedRow()
	if row.Kind != "payload" || !strings.Contains(row.Reason, "index out of range") || !strings.Contains(p.log.String(), "UnmarshalJSON") {
		t.Errorf("%s: %q, log %q", row.Kind, row.Reason, p.log)
	}
	p.inbox.row = &row
	if handling, err := p.Redrive(t.Context(), e.ID); handling != outbox.NotHandled || !errors.As(err, new(*outbox.HandlingError)) {
		t.Errorf("redrive: %v, %v", handling, err)
	}
}
