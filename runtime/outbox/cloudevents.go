package outbox

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The CloudEvents attributes of an envelope, as they are named on the wire.
// A broker's binding puts its own prefix before them ("ce-" on NATS and Kafka,
// "cloudEvents:" on AMQP).
const (
	attrSpecVersion      = "specversion"
	attrID               = "id"
	attrSource           = "source"
	attrType             = "type"
	attrSubject          = "subject"
	attrTime             = "time"
	attrContentType      = "datacontenttype"
	attrDataSchema       = "dataschema"
	attrAggregateType    = "aggregatetype"
	attrAggregateVersion = "aggregateversion"
	attrSchemaVersion    = "schemaversion"
	attrRepeatCause      = "repeatcause"

	// The extension for distributed tracing
	// (https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/distributed-tracing.md).
	attrTraceParent = headerTraceParent
	attrTraceState  = headerTraceState

	specVersion = "1.0"
	jsonType    = "application/json"
)

// Attributes yields the envelope's CloudEvents attributes in a fixed order,
// datacontenttype among them, the writer's own headers not. An event without a schema has
// no dataschema, one that is no repeat no repeatcause.
func (e Envelope) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_ = yield(attrSpecVersion, specVersion) &&
			yield(attrID, e.ID.String()) &&
			yield(attrSource, e.Source) &&
			yield(attrType, e.Type) &&
			yield(attrSubject, e.AggregateID) &&
			yield(attrTime, e.Time.UTC().Format(timestampLayout)) &&
			yield(attrContentType, jsonType) &&
			(e.DataSchema == "" || yield(attrDataSchema, e.DataSchema)) &&
			yield(attrAggregateType, e.AggregateType) &&
			yield(attrAggregateVersion, strconv.FormatInt(e.AggregateVersion, 10)) &&
			yield(attrSchemaVersion, strconv.Itoa(e.SchemaVersion)) &&
			(e.RepeatCause == "" || yield(attrRepeatCause, string(e.RepeatCause))) &&
			e.yieldTrace(yield)
	}
}

// yieldTrace repeats the trace context, which goes as plain headers too: those are
// what tracing libraries read, and what a hop on the way may replace.
func (e Envelope) yieldTrace(yield func(string, string) bool) bool {
	parent, state := e.Headers[headerTraceParent], e.Headers[headerTraceState]
	return (parent == "" || yield(attrTraceParent, parent)) &&
		(parent == "" || state == "" || yield(attrTraceState, state))
}

// ErrNotAnEvent is returned for a message that isn't an event of an outbox.
var ErrNotAnEvent = errors.New("not an event of an outbox")

// EnvelopeFromAttributes reads an envelope back. get returns an attribute's
// value, empty when the message lacks it. The event id must be a UUID in
// canonical form, so that no value that a message carries can look like
// anything else in an error of the database.
func EnvelopeFromAttributes(get func(name string) string, headers map[string]string, data []byte) (Envelope, error) {
	if v := get(attrSpecVersion); !strings.HasPrefix(v, "1.") {
		return Envelope{}, fmt.Errorf("%w: CloudEvents specversion is missing or not 1.x", ErrNotAnEvent)
	}
	if v := get(attrContentType); v != "" && !isJSONType(v) {
		return Envelope{}, fmt.Errorf("%w: datacontenttype is not %s", ErrNotAnEvent, jsonType)
	}
	e := Envelope{
		Source:        get(attrSource),
		Type:          get(attrType),
		AggregateID:   get(attrSubject),
		AggregateType: get(attrAggregateType),
		DataSchema:    get(attrDataSchema),
		RepeatCause:   parseRepeatCause(get(attrRepeatCause)),
		Headers:       headers,
		Data:          data,
	}
	var err error
	if e.ID, err = ParseEventID(get(attrID)); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrNotAnEvent, err)
	}
	if e.Type == "" || e.Source == "" {
		return Envelope{}, fmt.Errorf("%w: CloudEvents type or source is missing", ErrNotAnEvent)
	}
	if !utf8.ValidString(e.Type) || !utf8.ValidString(e.Source) || !utf8.ValidString(e.AggregateID) || !utf8.ValidString(e.AggregateType) || !utf8.ValidString(e.DataSchema) {
		return Envelope{}, fmt.Errorf("%w: an attribute is not UTF-8", ErrNotAnEvent)
	}
	if e.AggregateVersion, err = strconv.ParseInt(get(attrAggregateVersion), 10, 64); err != nil {
		return Envelope{}, fmt.Errorf("%w: aggregateversion is missing or not a number", ErrNotAnEvent)
	}
	if e.SchemaVersion, err = strconv.Atoi(get(attrSchemaVersion)); err != nil {
		return Envelope{}, fmt.Errorf("%w: schemaversion is missing or not a number", ErrNotAnEvent)
	}
	if v := get(attrTime); v != "" {
		if e.Time, err = parseTime(v); err != nil {
			return Envelope{}, fmt.Errorf("%w: time is not RFC 3339", ErrNotAnEvent)
		}
		if year := e.Time.UTC().Year(); year < 0 || year > 9999 { // RFC 3339 has no others
			return Envelope{}, fmt.Errorf("%w: time is not RFC 3339 in UTC", ErrNotAnEvent)
		}
	}
	e.readTrace(get)
	return e, nil
}

// parseTime reads RFC 3339, whose T and Z may be small letters, and whose leap second, which
// time.Time doesn't know, is read as the second after it.
func parseTime(v string) (time.Time, error) {
	v = strings.ToUpper(v)
	const seconds = len("2006-01-02T15:04:")
	if len(v) < seconds+2 || v[seconds:seconds+2] != "60" {
		return time.Parse(time.RFC3339Nano, v)
	}
	t, err := time.Parse(time.RFC3339Nano, v[:seconds]+"59"+v[seconds+2:])
	t = t.Add(time.Second)
	if u := t.UTC(); err == nil && (u.Hour() != 0 || u.Minute() != 0 || u.Day() != 1) {
		return t, errors.New("a leap second ends a month")
	}
	return t, err
}

// readTrace takes the trace context from the attributes unless the headers have it.
func (e *Envelope) readTrace(get func(string) string) {
	parent, state := get(attrTraceParent), get(attrTraceState)
	if _, has := e.Headers[headerTraceParent]; has || !validTraceParent(parent) {
		return
	}
	headers := map[string]string{headerTraceParent: parent}
	maps.Copy(headers, e.Headers)
	if state != "" && CheckHeader(headerTraceState, state) == nil {
		headers[headerTraceState] = state
	}
	e.Headers = headers
}

// isJSONType reports whether a media type is JSON: application/json, with or without
// parameters, in any letters.
func isJSONType(v string) bool {
	v, _, _ = strings.Cut(v, ";")
	return strings.EqualFold(strings.TrimSpace(v), jsonType)
}
