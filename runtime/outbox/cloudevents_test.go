package outbox_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What isn't UTF-8 could not be parked, nor written as JSON, without a change.
func TestAttributesThatAreNotUTF8(t *testing.T) {
	for _, name := range []string{"source", "type", "subject", "aggregatetype", "dataschema"} {
		attributes := maps.Collect(testEnvelope().Attributes())
		attributes[name] += "\xff"
		if _, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, nil); !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// CloudEvents allows no empty attribute: an event without a schema has none.
func TestDataSchemaIsOptional(t *testing.T) {
	e := testEnvelope()
	if v, has := maps.Collect(e.Attributes())["dataschema"]; has {
		t.Errorf("dataschema is %q in an event without one", v)
	}
	e.DataSchema = "https://schemas.example.com/a.v1.schema.json"
	attributes := maps.Collect(e.Attributes())
	back, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, nil)
	if err != nil || back.DataSchema != e.DataSchema {
		t.Errorf("read back: %q, %v", back.DataSchema, err)
	}
}

// RFC 3339 in all its forms, and nothing else.
func TestTimesOfOthers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-30t01:02:03z":         "2026-11-30T01:02:03Z",
		"2026-11-30t01:02:03.25+01:00": "2026-11-30T00:02:03.25Z",
		"2016-12-31T23:59:60Z":         "2017-01-01T00:00:00Z",
		"2016-12-31t23:59:60.5z":       "2017-01-01T00:00:00.5Z",
		"2017-01-01T00:59:60+01:00":    "2017-01-01T00:00:00Z",
		"2016-12-31T15:59:60-08:00":    "2017-01-01T00:00:00Z",
		"2016-12-31T23:58:60Z":         "",
		"2016-12-31T22:59:60Z":         "",
		"2016-12-30T23:59:60Z":         "",
		"2017-01-01T04:59:60Z":         "",
		"2016-12-31T23:59:61Z":         "",
		"2016-12-31T23:59:60":          "",
		"2016-12-31T23:59:6":           "",
		"2016-12-31 23:59:59Z":         "",
		"9999-12-31T23:59:60Z":         "",
		"2016-13-31T23:59:60Z":         "",
		"60":                           "",
		"2016-12-31T23:59:60.Z":        "",
		"2016-12-31T23:59:60+25:00":    "",
	} {
		attributes := map[string]string{
			"specversion": "1.0", "id": outbox.NewEventID().String(), "source": "s", "type": "t",
			"aggregateversion": "1", "schemaversion": "1", "time": text,
		}
		e, err := outbox.EnvelopeFromAttributes(func(name string) string { return attributes[name] }, nil, nil)
		got := ""
		if err == nil {
			got = e.Time.UTC().Format(time.RFC3339Nano)
		} else if !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
