package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var (
	// ErrUnroutable is in the error of a message that the broker has returned: no queue
	// is bound to the exchange for its routing key. Its kind is rejected.
	ErrUnroutable = errors.New("unroutable: no queue is bound for the routing key")

	// ErrNacked is in the error of a message that a queue refused, such as a full one
	// with overflow reject-publish. Its kind is failed.
	ErrNacked = errors.New("the broker refused the message (basic.nack)")

	// ErrBlocked is in the error of a message that was not sent because the broker
	// takes none: it is out of memory or disk space (connection.blocked). Its kind is
	// unavailable.
	ErrBlocked = errors.New("the broker takes no messages: memory or disk alarm")

	// ErrNoExchange is in the error of a message whose exchange doesn't exist. It is a
	// fault of the settings, not of the message, so the kind is unavailable: nothing
	// dies of it.
	ErrNoExchange = errors.New("the exchange does not exist")

	// ErrHeldBack is in the error of a message that was not sent because of an
	// earlier one in the same call.
	ErrHeldBack = errors.New("not sent: an earlier message failed")
)

var (
	errNotConnected = errors.New("not connected")
	errClosed       = errors.New("the publisher is closed")
	errReturnsLost  = errors.New("returned messages may have been lost")
	errNoAnswer     = errors.New("the broker does not answer")
	errNoRoom       = errors.New("the window of unconfirmed messages stays full")
)

func notSentError(cause error) error {
	return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", cause))
}

func heldBackError(first error) error {
	return outbox.PublishHeldBack(fmt.Errorf("%w: %w", ErrHeldBack, errors.Unwrap(first)))
}

func unconfirmedError(cause error) error {
	return outbox.PublishUnknown(fmt.Errorf("sent and not confirmed: %w", cause))
}

func ctxUnconfirmedError(ctx context.Context) error { return unconfirmedError(context.Cause(ctx)) }

func returnedError(s *sent) error {
	if s.returned.ReplyCode != amqp.NoRoute {
		return outbox.PublishFailed(fmt.Errorf("returned: %d %s", s.returned.ReplyCode, s.returned.ReplyText))
	}
	return outbox.PublishRejected(fmt.Errorf("%w %q of exchange %q", ErrUnroutable, s.key, s.exchange))
}

func nackedError(s *sent) error {
	return outbox.PublishFailed(fmt.Errorf("%w: exchange %q, routing key %q", ErrNacked, s.exchange, s.key))
}

// exchangeError tells a missing exchange from other answers.
func exchangeError(name string, err error) error {
	var reason *amqp.Error
	if errors.As(err, &reason) && reason.Code == amqp.NotFound {
		return fmt.Errorf("%w: %q", ErrNoExchange, name)
	}
	return fmt.Errorf("exchange %q: %w", name, err)
}

// judge decides what the end of a channel says of the messages that were unconfirmed. The
// broker handles a channel's messages in their order and none after the one that
// ended it, the offender. Which that was it doesn't say, only the exchange or the size. So
// of the messages that may be the offender, the last one and all behind it certainly
// were not taken: those before it are unknown.
func judge(reason *amqp.Error, pending map[uint64]*sent) func(*sent, error) error {
	suspect, kind := suspects(reason)
	var last uint64
	n := 0
	for tag, s := range pending {
		if suspect != nil && suspect(s) {
			n++
			last = max(last, tag)
		}
	}
	return func(s *sent, cause error) error {
		switch {
		case n == 0 || s.tag < last:
			return unconfirmedError(cause)
		case s.tag == last && n == 1:
			return kind(s, cause)
		default:
			return notSentError(cause)
		}
	}
}

// suspects returns which messages may have ended the channel, and what is to be said of
// the one that did, if it is sure which; nil where it was no message.
func suspects(reason *amqp.Error) (suspect func(*sent) bool, kind func(*sent, error) error) {
	if reason == nil || !reason.Server {
		return nil, nil
	}
	switch {
	case reason.Code == amqp.NotFound, reason.Code == amqp.AccessRefused:
		suspect = func(s *sent) bool { return strings.Contains(reason.Reason, fmt.Sprintf("exchange '%s'", s.exchange)) }
		kind = func(s *sent, cause error) error {
			if reason.Code == amqp.NotFound {
				cause = exchangeError(s.exchange, reason)
			}
			return notSentError(cause)
		}
		return suspect, kind
	case reason.Code == amqp.PreconditionFailed && strings.Contains(reason.Reason, "message size"):
		suspect = func(s *sent) bool { return strings.Contains(reason.Reason, fmt.Sprintf("message size %d is", s.size)) }
		kind = func(_ *sent, cause error) error {
			return outbox.PublishRejected(fmt.Errorf("the message is too large for the broker: %w", cause))
		}
		return suspect, kind
	default:
		return nil, nil
	}
}
