package rabbitmq

import (
	"errors"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: not within 30s", what)
		panic("unreachable")
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30s", what)
		}
	}
}

func wantKind(t *testing.T, err error, kind outbox.FailureKind) {
	t.Helper()
	if err == nil || outbox.FailureKindOf(err) != kind {
		t.Errorf("%v, want %v", err, kind)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%v, want %v", err, target)
	}
}
