package natsjs

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestAPIErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code jetstream.ErrorCode
		text string
		want outbox.FailureKind
	}{
		{10060, "expected stream does not match", outbox.FailureUnavailable},
		{10071, "wrong last sequence: 5", outbox.FailureUnavailable},
		{10164, "wrong last sequence", outbox.FailureUnavailable},
		{10077, "maximum messages exceeded", outbox.FailureUnavailable},
		{10077, "maximum bytes exceeded", outbox.FailureUnavailable},
		{10077, "message too large", outbox.FailureRejected},
		{10054, "message size exceeds maximum allowed", outbox.FailureRejected},
		{10097, "header size exceeds maximum allowed of 64k", outbox.FailureRejected},
		{10109, "invalid operation on sealed stream", outbox.FailureUnavailable},
		{10023, "insufficient resources", outbox.FailureUnavailable},
		{10039, "JetStream not enabled for account", outbox.FailureUnavailable},
		{10158, "duplicate message id is in process", outbox.FailureUnknown},
		{19999, "something new", outbox.FailureFailed},
	} {
		err := ackError(stream, &jetstream.APIError{Code: 400, ErrorCode: test.code, Description: test.text})
		if got := outbox.FailureKindOf(err); got != test.want {
			t.Errorf("%d %s: %v, want %v", test.code, test.text, got, test.want)
		}
	}
	for _, err := range []error{jetstream.ErrAsyncPublishTimeout, nats.ErrDisconnected, jetstream.ErrInvalidJSAck, jetstream.ErrJetStreamPublisherClosed, errors.New("new")} {
		wantKind(t, ackError(stream, err), outbox.FailureUnknown)
	}
}

func TestPublisherConfig(t *testing.T) {
	t.Parallel()
	subject := func(outbox.Envelope) string { return "x" }
	for _, cfg := range []PublisherConfig{
		{}, {Stream: "A", SubjectPrefix: "a b"}, {Stream: "A", SubjectPrefix: "a.>"}, {Stream: "A", SubjectPrefix: "a", Subject: subject},
		{Stream: "A", AckTimeout: -1}, {Stream: "A", MaxInFlight: -1},
	} {
		if _, err := NewPublisher(nil, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
