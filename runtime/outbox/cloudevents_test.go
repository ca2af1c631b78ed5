package outbox_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What isn't UTF-8 could not be parked, nor written as JSON, without a change.
func TestAttributesThatAreNotUTF8(t *testing.T) {
	for _, name := range []string{"source", "type", "subject", "aggregatetype"} {
		attributes := maps.Collect(testEnvelope().Attributes())
		attributes[name] += "\xff"
		if _, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, nil); !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
