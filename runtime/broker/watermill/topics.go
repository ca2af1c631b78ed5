package watermill

import (
	"errors"
	"fmt"
	"slices"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// checkTopics says what is wrong with the two settings that publisher and subscription
// share.
func checkTopics(t outbox.Topology, topic func(string) string) error {
	switch {
	case len(t.Events) > 0 && topic != nil:
		return errors.New("the settings Topology and Topic exclude each other")
	case len(t.Events) == 0 && topic == nil:
		return errors.New("needs Topology or Topic: where events go")
	}
	for _, e := range t.Events {
		if e.Topic == "" {
			return fmt.Errorf("the topology has no topic for event %s", e.Type)
		}
	}
	return nil
}

// topicOf returns the function that finds an event type's topic, "" for none.
func topicOf(t outbox.Topology, topic func(string) string) func(eventType string) string {
	if topic != nil {
		return topic
	}
	topics := make(map[string]string, len(t.Events))
	for _, e := range t.Events {
		topics[e.Type] = e.Topic
	}
	return func(eventType string) string { return topics[eventType] }
}

// topicsOf returns the topics of a handler's events, sorted.
func topicsOf(h outbox.Handler, cfg SubscribeConfig) ([]string, error) {
	if h.Name() == "" || len(h.EventTypes()) == 0 {
		return nil, errors.New("the handler has no name or handles no event type")
	}
	if len(cfg.Topology.Events) > 0 {
		if _, ok := cfg.Topology.Consumer(h.Name()); !ok {
			return nil, errors.New("the topology does not have this consumer")
		}
	}
	find := topicOf(cfg.Topology, cfg.Topic)
	var topics []string
	for _, eventType := range h.EventTypes() {
		topic := find(eventType)
		if topic == "" {
			return nil, fmt.Errorf("there is no topic for event %s", eventType)
		}
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics), nil
}
