package outbox

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestHandlingErrorMadeElsewhere(t *testing.T) {
	t.Parallel()
	e := &HandlingError{Consumer: "projector", Kind: FailureUnavailable, Cause: errors.New("canary"), Again: time.Second}
	if got := e.Error(); got != "consumer projector, event 00000000-0000-0000-0000-000000000000: unavailable" {
		t.Errorf("its text is %q", got)
	}
	if r := RedeliveryOf(fmt.Errorf("wrapped: %w", e)); !r.Pause || r.After != time.Second {
		t.Errorf("%+v, want a pause and a second", r)
	}
	e.Again = -time.Second
	if r := RedeliveryOf(e); r.After != 0 {
		t.Errorf("%+v, want no wait below zero", r)
	}
	e.Kind = FailureFailed
	if r := RedeliveryOf(e); r.Pause {
		t.Errorf("%+v, want no pause", r)
	}
}
