package natsjs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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

func consumerConfig(name string, from source, ackWait time.Duration, maxAckPending int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:        from.durable,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        ackWait,
		MaxDeliver:     -1,
		MaxAckPending:  maxAckPending,
		FilterSubjects: from.subjects,
		Metadata:       map[string]string{metadataName: name},
	}
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
	d := differences{thing: "consumer " + want.Durable + " of stream " + stream}
	if compare(&d, want, consumer.CachedInfo().Config); len(d.all) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrConsumerMismatch, &MismatchError{Differences: d.all})
	}
	return consumer, nil
}

// compare finds in what a consumer that is there differs to the events' cost. What an
// operator may tune, such as AckWait, isn't compared.
func compare(d *differences, want, have jetstream.ConsumerConfig) {
	filters := slices.Clone(have.FilterSubjects)
	if have.FilterSubject != "" {
		filters = append(filters, have.FilterSubject)
	}
	slices.Sort(filters)
	if name, other := want.Metadata[metadataName], have.Metadata[metadataName]; other != "" && other != name {
		d.add("handler", other, name)
	}
	if have.AckPolicy != want.AckPolicy {
		d.add("acknowledgement policy", have.AckPolicy, want.AckPolicy)
	}
	if !slices.Equal(filters, want.FilterSubjects) {
		d.add("filter subjects", filters, want.FilterSubjects)
	}
	if have.MaxDeliver > 0 {
		d.add("delivery limit", have.MaxDeliver, "none")
	}
	if have.HeadersOnly {
		d.add("headers only", true, false)
	}
}
