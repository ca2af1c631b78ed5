package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestProduceErrors(t *testing.T) {
	var (
		never    = trail{}
		answered = trail{sent: true}
		open     = trail{sent: true, open: true}
		broken   = trail{sent: true, broken: true, open: true}
	)
	const (
		rejected    = outbox.FailureRejected
		failed      = outbox.FailureFailed
		unavailable = outbox.FailureUnavailable
		unknown     = outbox.FailureUnknown
	)
	for _, c := range []struct {
		err   error
		trail trail
		want  outbox.FailureKind
	}{
		// The broker's answer to the one request that held the record.
		{kerr.MessageTooLarge, answered, rejected},
		{fmt.Errorf("%w (uncompressed_bytes=1)", kerr.MessageTooLarge), answered, rejected},
		{kerr.RecordListTooLarge, answered, rejected},
		{kerr.InvalidRecord, answered, rejected},
		{kerr.InvalidTimestamp, answered, failed},
		{kerr.CorruptMessage, answered, failed},
		{kerr.PolicyViolation, answered, failed},
		{kerr.NotEnoughReplicas, answered, unavailable},
		{kerr.NotLeaderForPartition, answered, unavailable},
		{kerr.FencedLeaderEpoch, answered, unavailable},
		{kerr.UnknownLeaderEpoch, answered, unavailable},
		{kerr.UnknownTopicOrPartition, answered, unavailable},
		{kerr.UnknownTopicID, answered, unavailable},
		{kerr.InconsistentTopicID, answered, unavailable},
		{kerr.InvalidTopicException, answered, unavailable},
		{kerr.TopicAuthorizationFailed, answered, unavailable},
		{kerr.ClusterAuthorizationFailed, answered, unavailable},
		{kerr.TransactionalIDAuthorizationFailed, answered, unavailable},
		{kerr.InvalidRequiredAcks, answered, unavailable},
		{kerr.UnsupportedForMessageFormat, answered, unavailable},
		{kerr.UnsupportedCompressionType, answered, unavailable},

		// Answers that leave it open.
		{kerr.NotEnoughReplicasAfterAppend, answered, unknown},
		{kerr.RequestTimedOut, answered, unknown},
		{kerr.KafkaStorageError, answered, unknown},
		{kerr.UnknownServerError, answered, unknown},
		{kerr.NetworkException, answered, unknown},
		{kerr.OutOfOrderSequenceNumber, answered, unknown},
		{kerr.InvalidProducerEpoch, answered, unknown},
		{kerr.UnknownProducerID, answered, unknown},
		{kerr.LeaderNotAvailable, answered, unknown},
		{kgo.ErrRecordRetries, answered, unknown},
		{kgo.ErrClientClosed, answered, unknown},
		{context.DeadlineExceeded, answered, unknown},
		{errors.New("anything"), answered, unknown},

		// A connection broke meanwhile: an earlier attempt may have been appended.
		{kerr.NotEnoughReplicas, broken, unknown},
		{kerr.MessageTooLarge, broken, unknown},
		{kerr.TopicAuthorizationFailed, broken, unknown},

		// Another request has no answer yet. Codes that come with metadata too may
		// be about that one.
		{kerr.NotEnoughReplicas, open, unavailable},
		{kerr.TopicAuthorizationFailed, open, unknown},
		{kerr.ClusterAuthorizationFailed, open, unknown},
		{kerr.UnknownTopicOrPartition, open, unknown},

		// Never written to a connection.
		{kerr.MessageTooLarge, never, rejected},
		{kerr.UnknownTopicOrPartition, never, unavailable},
		{kerr.LeaderNotAvailable, never, unavailable},
		{kerr.SaslAuthenticationFailed, never, unavailable},
		{kgo.ErrRecordRetries, never, unavailable},
		{kgo.ErrClientClosed, never, unavailable},
		{context.Canceled, never, unavailable},
	} {
		if got := outbox.FailureKindOf(produceError(c.err, c.trail)); got != c.want {
			t.Errorf("%v with %+v: %v, want %v", c.err, c.trail, got, c.want)
		}
	}
}
