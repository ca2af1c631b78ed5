package kafka

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	attrPrefix      = "ce_"
	contentType     = "content-type"
	attrType        = "type"
	attrContentType = "datacontenttype" // the binding maps it to content-type
)

// encode makes the record of an envelope, without its topic. An error means that this
// envelope can never be sent. It names a header, never shows its value.
//
// A broker takes no header as a command, and a writer's header names have no
// underscore ([outbox.CheckHeader]), which those of the binding, and of tools such
// as Kafka Connect (__connect.…) and Spring (__TypeId__, kafka_…), have.
func encode(e outbox.Envelope) (*kgo.Record, error) {
	if e.ID == uuid.Nil || e.Type == "" || e.Source == "" || len(e.Data) == 0 {
		return nil, errors.New("the event lacks its id, type, source or payload")
	}
	// An empty key is still a key: without one the partition would be any.
	r := &kgo.Record{Key: append([]byte{}, e.AggregateID...), Value: e.Data}
	r.Headers = make([]kgo.RecordHeader, 0, 12+len(e.Headers))
	for name, value := range e.Attributes() {
		if value == "" { // CloudEvents allows no empty attribute, but its absence
			continue
		}
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("attribute %s isn't UTF-8", name)
		}
		key := attrPrefix + name
		if name == attrContentType {
			key = contentType
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	for name, value := range e.Headers {
		if err := outbox.CheckHeader(name, value); err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return r, nil
}

// message is a record's headers, sorted out.
type message struct {
	attrs       map[string]string
	headers     map[string]string // all but attributes and content type; nil when there is none
	contentType string
	ambiguous   error // an attribute is there twice
}

// read sorts out a record's headers. Their names count in any letters.
func read(r *kgo.Record) message {
	m := message{attrs: make(map[string]string, 12)}
	for _, h := range r.Headers {
		name := strings.ToLower(h.Key)
		attr, isAttr := strings.CutPrefix(name, attrPrefix)
		if name == contentType {
			attr, isAttr = attrContentType, true
		}
		if isAttr {
			if _, twice := m.attrs[attr]; twice {
				m.ambiguous = fmt.Errorf("%w: an attribute is there twice", outbox.ErrNotAnEvent)
			}
			m.attrs[attr] = string(h.Value)
			continue
		}
		if m.headers == nil {
			m.headers = make(map[string]string)
		}
		if first, has := m.headers[name]; has {
			m.headers[name] = first + "," + string(h.Value)
		} else {
			m.headers[name] = string(h.Value)
		}
	}
	m.contentType = m.attrs[attrContentType]
	return m
}

// eventType is the type of an event in binary mode, "" when it isn't known
// without reading all of it.
func (m message) eventType() string {
	if outbox.IsStructured(m.contentType) || m.ambiguous != nil {
		return ""
	}
	return m.attrs[attrType]
}

// envelope reads the event, in binary or structured mode. Its error is
// [outbox.ErrNotAnEvent].
func (m message) envelope(value []byte) (outbox.Envelope, error) {
	if m.ambiguous != nil {
		return outbox.Envelope{}, m.ambiguous
	}
	if outbox.IsStructured(m.contentType) {
		return outbox.EnvelopeFromStructured(m.contentType, m.headers, value)
	}
	for attr, v := range m.attrs {
		if !utf8.ValidString(v) {
			// The attribute's name is the sender's, and may be anything.
			return outbox.Envelope{}, fmt.Errorf("%w: attribute %q isn't UTF-8", outbox.ErrNotAnEvent, shorten(attr))
		}
	}
	return outbox.EnvelopeFromAttributes(func(name string) string { return m.attrs[name] }, m.headers, value)
}

// unreadable is a record that is no event, for [outbox.Handler.Park].
func unreadable(r *kgo.Record, reason error) *outbox.Unreadable {
	headers := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		if first, has := headers[h.Key]; has {
			headers[h.Key] = first + "," + string(h.Value)
		} else {
			headers[h.Key] = string(h.Value)
		}
	}
	return &outbox.Unreadable{
		Reference: fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset),
		Headers:   headers,
		Body:      r.Value,
		Reason:    reason,
	}
}
