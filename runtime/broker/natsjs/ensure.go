package natsjs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// EnsureConfig has the settings of [Ensure]. The zero value verifies and creates nothing.
type EnsureConfig struct {
	// Create creates the streams and durable consumers that are missing. By default
	// each is a difference.
	Create bool

	// Replicas of a stream that is created, 1 by default. When set, a stream that
	// is there has to have at least as many.
	Replicas int

	// Duplicates is the duplicate window of a stream that is created, the server's
	// default of 2 min by default. When set, a stream that is there has to have it.
	Duplicates time.Duration

	// MaxAge is how long a stream that is created keeps its messages, handled or
	// not. Defaults to 0, for ever.
	MaxAge time.Duration

	// AckWait and MaxAckPending are those of the durable consumers that are created,
	// as in [SubscribeConfig]. Default to 30 s and 1000.
	AckWait       time.Duration
	MaxAckPending int
}

func (c EnsureConfig) validate() error {
	if min(c.Duplicates, c.MaxAge, c.AckWait) < 0 || min(c.Replicas, c.MaxAckPending) < 0 {
		return errors.New("natsjs: EnsureConfig has a negative setting")
	}
	return nil
}

// Report is what [Ensure] did and saw.
type Report struct {
	// Created are the streams and consumers that were missing.
	Created []string

	// Notes are settings under which the broker may drop what no consumer has
	// handled yet, or confirms less than one might think. They may be meant.
	Notes []string
}

// Ensure verifies that the broker has what the topology needs: the streams of the
// events, with subjects that cover theirs, and each consumer's durable consumers. With
// [EnsureConfig.Create] it creates what is missing: a stream in files, which refuses
// new messages rather than drop old ones when it is full. What is there is never
// changed. The error is a [*MismatchError] when something has to be changed, or
// is missing.
//
// Call it before events are published: what is published to a subject that no stream
// has isn't lost, it waits in the outbox; but a durable consumer of a stream whose
// retention is interest gets nothing that is older than itself.
func Ensure(ctx context.Context, js jetstream.JetStream, topology outbox.Topology, cfg EnsureConfig) (Report, error) {
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	defaultTo(&cfg.AckWait, defaultAckWait)
	defaultTo(&cfg.MaxAckPending, defaultMaxAckPending)
	e := &ensuring{js: js, topology: topology, cfg: cfg, missing: make(map[string]bool), retention: make(map[string]jetstream.RetentionPolicy)}
	if err := e.run(ctx); err != nil {
		return e.report, fmt.Errorf("natsjs: ensure: %w", err)
	}
	if len(e.differences) > 0 {
		return e.report, fmt.Errorf("natsjs: ensure: %w", &MismatchError{Differences: e.differences})
	}
	return e.report, nil
}

// ensuring is one call of Ensure.
type ensuring struct {
	js          jetstream.JetStream
	topology    outbox.Topology
	cfg         EnsureConfig
	missing     map[string]bool                      // streams
	retention   map[string]jetstream.RetentionPolicy // by stream that was there
	report      Report
	differences []Difference
}

func (e *ensuring) run(ctx context.Context) error {
	streams, err := streamsOf(e.topology)
	if err != nil {
		return err
	}
	for _, s := range streams {
		if err := e.stream(ctx, s); err != nil {
			return fmt.Errorf("stream %s: %w", s.name, err)
		}
	}
	for _, consumer := range e.topology.Consumers {
		all, err := topologySources(e.topology, consumer, consumer.Events)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", consumer.Name, err)
		}
		for _, from := range all {
			if err := e.consumer(ctx, consumer.Name, from); err != nil {
				return fmt.Errorf("consumer %s in stream %s: %w", from.durable, from.stream, err)
			}
		}
	}
	return nil
}

// consumer verifies or creates one durable consumer, unless its stream is missing.
func (e *ensuring) consumer(ctx context.Context, name string, from source) error {
	if e.missing[from.stream] {
		return nil
	}
	d := differences{thing: "consumer " + from.durable + " of stream " + from.stream}
	want := consumerConfig(name, from, e.cfg.AckWait, e.cfg.MaxAckPending)
	consumer, err := e.js.Consumer(ctx, from.stream, from.durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound) && e.cfg.Create:
		_, err := e.js.CreateConsumer(ctx, from.stream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			return e.consumer(ctx, name, from)
		}
		if err == nil {
			e.report.Created = append(e.report.Created, d.thing)
		}
		return err
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		d.add("existence", "none", "a durable pull consumer")
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		d.add("kind", "push", "pull")
	case err != nil:
		return err
	default:
		have, retention := consumer.CachedInfo().Config, e.retention[from.stream]
		compare(&d, want, have, retention)
		if have.InactiveThreshold > 0 && retention == jetstream.LimitsPolicy {
			e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s: inactive_threshold %v: it is deleted when nobody reads it for so long, and made anew begins at the stream's start",
				d.thing, have.InactiveThreshold))
		}
	}
	e.differences = append(e.differences, d.all...)
	return nil
}
