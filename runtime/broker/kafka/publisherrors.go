package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrHeldBack is in the error of a message that was not sent because of an
// earlier one in the same call: one of the same aggregate that failed, or one
// that showed that the broker takes nothing at the moment.
var ErrHeldBack = errors.New("not sent: an earlier message failed")

// answers are the error codes with which a broker says that it has not appended a
// record (https://kafka.apache.org/protocol#protocol_error_codes). Any other leaves
// it open.
var answers = map[int16]func(error) error{
	// The record itself. A broker judges a whole batch, so one of these counts when
	// the record was alone in its batch.
	kerr.MessageTooLarge.Code:    outbox.PublishRejected,
	kerr.RecordListTooLarge.Code: outbox.PublishRejected,
	kerr.InvalidRecord.Code:      outbox.PublishRejected,
	kerr.InvalidTimestamp.Code:   outbox.PublishFailed, // of a clock
	kerr.CorruptMessage.Code:     outbox.PublishFailed, // its checksum, or a compacted topic
	kerr.PolicyViolation.Code:    outbox.PublishFailed,

	// The cluster, for now.
	kerr.NotEnoughReplicas.Code:     outbox.PublishUnavailable,
	kerr.NotLeaderForPartition.Code: outbox.PublishUnavailable,
	kerr.FencedLeaderEpoch.Code:     outbox.PublishUnavailable,
	kerr.UnknownLeaderEpoch.Code:    outbox.PublishUnavailable,

	// Settings: nothing dies of them.
	kerr.TopicAuthorizationFailed.Code:           outbox.PublishUnavailable,
	kerr.ClusterAuthorizationFailed.Code:         outbox.PublishUnavailable,
	kerr.InvalidTopicException.Code:              outbox.PublishUnavailable,
	kerr.InvalidRequiredAcks.Code:                outbox.PublishUnavailable,
	kerr.UnsupportedForMessageFormat.Code:        outbox.PublishUnavailable,
	kerr.UnsupportedCompressionType.Code:         outbox.PublishUnavailable,
	kerr.UnknownTopicOrPartition.Code:            outbox.PublishUnavailable,
	kerr.UnknownTopicID.Code:                     outbox.PublishUnavailable,
	kerr.InconsistentTopicID.Code:                outbox.PublishUnavailable,
	kerr.TransactionalIDAuthorizationFailed.Code: outbox.PublishUnavailable,
}

// fromMetadata are those codes that can also come with metadata or with a producer id,
// while the record itself is on its way.
var fromMetadata = map[int16]bool{
	kerr.UnknownTopicOrPartition.Code:    true,
	kerr.UnknownTopicID.Code:             true,
	kerr.InconsistentTopicID.Code:        true,
	kerr.InvalidTopicException.Code:      true,
	kerr.TopicAuthorizationFailed.Code:   true,
	kerr.ClusterAuthorizationFailed.Code: true,
}

// produceError classifies what franz-go says of a record.
func produceError(err error, t trail) error {
	var answer *kerr.Error
	isAnswer := errors.As(err, &answer)
	if !t.sent {
		if isAnswer && answer.Code == kerr.MessageTooLarge.Code {
			return outbox.PublishRejected(err) // above MaxMessageBytes, says the client
		}
		return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", err))
	}
	if isAnswer && !t.broken && (!t.open || !fromMetadata[answer.Code]) {
		if classify, ok := answers[answer.Code]; ok {
			return classify(err)
		}
	}
	return outbox.PublishUnknown(err)
}

// isRemade reports whether a topic has another id than the client knows: it was deleted
// and made anew. A client of franz-go never takes a new id for a topic that it
// knows, so it is of no more use.
func isRemade(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// blamesMessage reports whether an error is about the record, not the cluster.
func blamesMessage(err error) bool {
	kind := outbox.FailureKindOf(err)
	return err != nil && (kind == outbox.FailureRejected || kind == outbox.FailureFailed)
}

func notSent(ctx context.Context) error {
	return outbox.PublishUnavailable(fmt.Errorf("not sent: %w", context.Cause(ctx)))
}

func heldBack(first error) error {
	return outbox.PublishHeldBack(fmt.Errorf("%w: %w", ErrHeldBack, errors.Unwrap(first)))
}
