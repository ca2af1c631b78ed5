package natsjs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrConsumerMismatch is returned when the durable consumer is there already with
// settings under which messages would be lost, missed or never be handed out. Subscribe never changes
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
// changed: its filter or acknowledgement policy may be somebody else's decision. The
// stream's settings are compared as well, unless they can't be had: a user who may
// read a consumer need not be one who may look at its stream.
func findOrCreate(ctx context.Context, js jetstream.JetStream, from source, want jetstream.ConsumerConfig, log *slog.Logger) (jetstream.Consumer, error) {
	d := differences{thing: "stream " + from.stream}
	var retention jetstream.RetentionPolicy
	stream, streamErr := js.Stream(ctx, from.stream)
	if streamErr == nil {
		have := stream.CachedInfo().Config
		retention = have.Retention
		compareTransform(&d, from, have.SubjectTransform)
	}
	consumer, err := js.Consumer(ctx, from.stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if len(d.all) > 0 {
			return nil, mismatch(d)
		}
		consumer, err = js.CreateConsumer(ctx, from.stream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			consumer, err = js.Consumer(ctx, from.stream, want.Durable)
		}
	}
	if errors.Is(err, jetstream.ErrNotPullConsumer) {
		return nil, fmt.Errorf("%w: %s is a push consumer", ErrConsumerMismatch, want.Durable)
	}
	if err != nil {
		return nil, err
	}
	if streamErr != nil {
		log.Warn("the stream's settings can't be seen, and are not verified", "error", streamErr)
	}
	d.thing = "consumer " + want.Durable + " of stream " + from.stream
	if compare(&d, want, consumer.CachedInfo().Config, retention); len(d.all) > 0 {
		return nil, mismatch(d)
	}
	return consumer, nil
}

func mismatch(d differences) error {
	return fmt.Errorf("%w: %w", ErrConsumerMismatch, &MismatchError{Differences: d.all})
}

// compareTransform finds out whether the stream stores events under other subjects than
// those that they are published to, which are those that their consumers ask for.
func compareTransform(d *differences, from source, have *jetstream.SubjectTransformConfig) {
	if have == nil || from.stored || have.Source == have.Destination {
		return
	}
	for _, subject := range from.subjects {
		if have.Source == "" || covers(have.Source, subject) { // none is all
			d.add("subject transform", have.Source+" to "+have.Destination, "none for "+subject)
		}
	}
}

// compare finds in what a consumer that is there differs to the events' cost. What an
// operator may tune, such as AckWait, isn't compared.
func compare(d *differences, want, have jetstream.ConsumerConfig, retention jetstream.RetentionPolicy) {
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
	if have.DeliverPolicy != want.DeliverPolicy {
		d.add("deliver policy", have.DeliverPolicy, want.DeliverPolicy)
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
	if have.MaxRequestExpires > 0 && have.MaxRequestExpires < leastExpiry {
		d.add("max expires", have.MaxRequestExpires, fmt.Sprint("at least ", leastExpiry))
	}
	if have.InactiveThreshold > 0 && retention != jetstream.LimitsPolicy {
		d.add("inactive threshold", have.InactiveThreshold, "none, with retention "+strings.ToLower(retention.String()))
	}
}
