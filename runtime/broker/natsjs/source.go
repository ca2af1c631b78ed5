package natsjs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// source is what a consumer reads from one stream.
type source struct {
	stream   string
	durable  string
	subjects []string // sorted
	stored   bool     // subjects are those that the stream stores, whatever was published to
}

// sources returns where the handler's events are, by stream.
func sources(h outbox.Handler, cfg SubscribeConfig) ([]source, error) {
	if h.Name() == "" || len(h.EventTypes()) == 0 && len(cfg.Subjects) == 0 {
		return nil, errors.New("the handler has no name or handles no event type")
	}
	if len(cfg.Topology.Events) > 0 {
		consumer, ok := cfg.Topology.Consumer(h.Name())
		if !ok {
			return nil, errors.New("the topology does not have this consumer")
		}
		return topologySources(cfg.Topology, consumer, h.EventTypes())
	}
	s := source{stream: cfg.Stream, durable: DurableName(h.Name()), subjects: slices.Sorted(slices.Values(cfg.Subjects)), stored: len(cfg.Subjects) > 0}
	if len(s.subjects) == 0 {
		for _, eventType := range h.EventTypes() {
			subject := cfg.SubjectPrefix + "." + eventType
			if err := checkSubject(subject); err != nil {
				return nil, err
			}
			s.subjects = append(s.subjects, subject)
		}
		slices.Sort(s.subjects)
	}
	return []source{s}, nil
}

// topologySources returns where a consumer's events are, by stream.
func topologySources(t outbox.Topology, consumer outbox.ConsumerTopology, eventTypes []string) ([]source, error) {
	durable := consumer.Queue
	if durable == "" {
		durable = consumer.Name
	}
	byStream := make(map[string][]string)
	for _, eventType := range eventTypes {
		e, ok := t.Event(eventType)
		if !ok {
			return nil, fmt.Errorf("the topology does not have event %s", eventType)
		}
		if err := checkPlace(e); err != nil {
			return nil, err
		}
		byStream[e.Stream] = append(byStream[e.Stream], e.Key)
	}
	var all []source
	for stream, subjects := range byStream {
		slices.Sort(subjects)
		all = append(all, source{stream: stream, durable: DurableName(durable), subjects: slices.Compact(subjects)})
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.stream, b.stream) })
	return all, nil
}

// checkPlace checks that an event type has a stream and a subject.
func checkPlace(e outbox.EventTopology) error {
	if e.Stream == "" {
		return fmt.Errorf("the topology has no stream for event %s", e.Type)
	}
	if err := checkSubject(e.Key); err != nil {
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	return nil
}
