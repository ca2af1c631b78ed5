package natsjs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrHeldBack is in the error of a message that was not sent because of an
// earlier one in the same call: one of the same aggregate that failed, or one
// that showed that the broker takes nothing at the moment. Its kind is
// unavailable.
var ErrHeldBack = errors.New("not sent: an earlier message failed")

// ErrWrongStream is in the error of a message that another stream than the
// configured one has taken, or would have. It is a fault of the settings, not of
// the message, so the kind is unavailable: nothing dies of it.
var ErrWrongStream = errors.New("the subject belongs to another stream")

// ErrNoPlace is in the error of an event whose type isn't in the publisher's topology, as
// when a relay is older than the service. The kind is unavailable: it waits.
var ErrNoPlace = errors.New("the topology does not have the event type")

// ErrClosed is in the error of a message that was published after Close. Its kind is
// unavailable.
var ErrClosed = errors.New("the publisher is closed")

// sendError classifies an error that came before or while the message was
// written to the connection's buffer.
func sendError(err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrBadHeaderMsg):
		return outbox.PublishRejected(err)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrInvalidConnection),
		errors.Is(err, nats.ErrHeadersNotSupported), errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return outbox.PublishUnavailable(err)
	default:
		// A write error: part of the buffer may have gone out before it.
		return outbox.PublishUnknown(err)
	}
}

// Error codes of the server's errors.json that jetstream has no constant for.
const (
	codeAccountResources    jetstream.ErrorCode = 10002
	codeClusterUnavailable  jetstream.ErrorCode = 10008
	codeInsufficient        jetstream.ErrorCode = 10023
	codeMemoryResources     jetstream.ErrorCode = 10028
	codeStorageResources    jetstream.ErrorCode = 10047
	codeStreamMismatch      jetstream.ErrorCode = 10060
	codeWrongLastMsgID      jetstream.ErrorCode = 10070
	codeStoreFailed         jetstream.ErrorCode = 10077
	codeHeaderTooLarge      jetstream.ErrorCode = 10097
	codeSealed              jetstream.ErrorCode = 10109
	codeStreamOffline       jetstream.ErrorCode = 10118
	codeDuplicateInProgress jetstream.ErrorCode = 10158
	codeStreamOfflineReason jetstream.ErrorCode = 10194
)

// ackError classifies what came instead of a good acknowledgement.
func ackError(stream string, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return apiError(stream, api)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		// The server says so itself: nobody listened on the subject.
		return outbox.PublishUnavailable(fmt.Errorf("no stream takes the subject: stream %q is missing, has other subjects or no leader: %w", stream, err))
	default:
		// A timeout, a lost connection, an answer that isn't an acknowledgement.
		return outbox.PublishUnknown(err)
	}
}

func apiError(stream string, err *jetstream.APIError) error {
	switch err.ErrorCode {
	case codeStreamMismatch:
		return outbox.PublishUnavailable(fmt.Errorf("%w: want %q: %w", ErrWrongStream, stream, err))
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return outbox.PublishRejected(err)
	case codeStoreFailed:
		// "maximum messages exceeded" and its kin: the stream is full and refuses
		// new ones, or its disk does. One reason is the message's own.
		if strings.Contains(err.Description, "message too large") {
			return outbox.PublishRejected(err)
		}
		return outbox.PublishUnavailable(err)
	case codeDuplicateInProgress:
		// Another copy of this event is about to be stored, or to fail.
		return outbox.PublishUnknown(err)
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant, codeWrongLastMsgID,
		codeSealed, codeAccountResources, codeClusterUnavailable, codeInsufficient, codeMemoryResources, codeStorageResources,
		codeStreamOffline, codeStreamOfflineReason,
		jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return outbox.PublishUnavailable(err)
	default:
		return outbox.PublishFailed(err)
	}
}

func unconfirmed(ctx context.Context) error {
	return outbox.PublishUnknown(fmt.Errorf("sent and not yet acknowledged: %w", context.Cause(ctx)))
}

func notSent(ctx context.Context) error {
	return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", context.Cause(ctx)))
}

func heldBack(first error) error {
	return outbox.PublishHeldBack(fmt.Errorf("%w: %w", ErrHeldBack, errors.Unwrap(first)))
}
