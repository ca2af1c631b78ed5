package natsjs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ErrConsumerMismatch is returned when the durable consumer is there already with
// settings under which messages would be lost or missed. Subscribe never changes
// a consumer that it finds.
var ErrConsumerMismatch = errors.New("the durable consumer exists with other settings")

// metadataName holds the handler's name in the consumer's metadata.
const metadataName = "outboxgen-consumer"

// DurableName is the name of the durable consumer of a handler. A name of
// letters, digits, '-' and '_' stays as it is. In any other one the other
// characters, dots among them, become '_', and eight digits of the name's SHA-256
// follow, so that "a.b" and "a_b" don't share a consumer.
func DurableName(handler string) string {
	mapped := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, handler)
	if mapped == handler {
		return handler
	}
	sum := sha256.Sum256([]byte(handler))
	return mapped + "-" + hex.EncodeToString(sum[:4])
}

func consumerConfig(h outbox.Handler, cfg SubscribeConfig) (jetstream.ConsumerConfig, error) {
	subjects := slices.Clone(cfg.Subjects)
	if len(subjects) == 0 {
		for _, t := range h.EventTypes() {
			subject := cfg.SubjectPrefix + "." + t
			if err := checkSubject(subject); err != nil {
				return jetstream.ConsumerConfig{}, fmt.Errorf("natsjs: consumer %s: %w", h.Name(), err)
			}
			subjects = append(subjects, subject)
		}
	}
	if h.Name() == "" || len(subjects) == 0 {
		return jetstream.ConsumerConfig{}, errors.New("natsjs: the handler has no name or handles no event type")
	}
	slices.Sort(subjects)
	return jetstream.ConsumerConfig{
		Durable:        DurableName(h.Name()),
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  cfg.MaxAckPending,
		FilterSubjects: subjects,
		Metadata:       map[string]string{metadataName: h.Name()},
	}, nil
}

// findOrCreate returns the durable consumer. One that exists is compared, never
// changed: its filter or acknowledgement policy may be somebody else's decision.
func findOrCreate(ctx context.Context, js jetstream.JetStream, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := js.Consumer(ctx, stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = js.CreateConsumer(ctx, stream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			consumer, err = js.Consumer(ctx, stream, want.Durable)
		}
	}
	if errors.Is(err, jetstream.ErrNotPullConsumer) {
		return nil, fmt.Errorf("%w: %s is a push consumer", ErrConsumerMismatch, want.Durable)
	}
	if err != nil {
		return nil, err
	}
	if err := compare(want, consumer.CachedInfo().Config); err != nil {
		return nil, err
	}
	return consumer, nil
}

func compare(want, have jetstream.ConsumerConfig) error {
	filters := slices.Clone(have.FilterSubjects)
	if have.FilterSubject != "" {
		filters = append(filters, have.FilterSubject)
	}
	slices.Sort(filters)
	switch name, other := want.Metadata[metadataName], have.Metadata[metadataName]; {
	case other != "" && other != name:
		return mismatchError(want.Durable, "the handler name", other, name)
	case have.AckPolicy != want.AckPolicy:
		return mismatchError(want.Durable, "the acknowledgement policy", have.AckPolicy, want.AckPolicy)
	case !slices.Equal(filters, want.FilterSubjects):
		return mismatchError(want.Durable, "the filter subjects", filters, want.FilterSubjects)
	case have.MaxDeliver > 0:
		return mismatchError(want.Durable, "the delivery limit", have.MaxDeliver, "none")
	case have.HeadersOnly:
		return mismatchError(want.Durable, "headers only", true, false)
	default:
		return nil
	}
}

func mismatchError(durable, what string, have, want any) error {
	return fmt.Errorf("%w: consumer %s: %s is %v, want %v", ErrConsumerMismatch, durable, what, have, want)
}
