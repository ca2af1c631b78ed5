package watermill

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	attrPrefix      = "ce_"
	attrPrefixDash  = "ce-" // of the bindings for NATS and Google Cloud Pub/Sub; read, not written
	contentType     = "content-type"
	attrType        = "type"
	attrContentType = "datacontenttype" // the binding maps it to content-type

	// ownPrefix begins the metadata that Watermill's parts speak to each other with.
	ownPrefix = "_watermill"
)

// encode makes the message of an envelope. An error means that this envelope can never be
// sent. It names a header, never shows its value.
//
// What Watermill's own parts, such as delay and requeuer, take as commands begins with an
// underscore, which no writer's header has ([outbox.CheckHeader]).
func encode(e outbox.Envelope) (*message.Message, error) {
	if e.ID == uuid.Nil || e.Type == "" || e.Source == "" || len(e.Data) == 0 {
		return nil, errors.New("the event lacks its id, type, source or payload")
	}
	// A publisher may change the message that it is given.
	m := message.NewMessage(e.ID.String(), bytes.Clone(e.Data))
	for name, value := range e.Attributes() {
		if value == "" { // CloudEvents allows no empty attribute, but its absence
			continue
		}
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("attribute %s isn't UTF-8", name)
		}
		if name == attrContentType {
			m.Metadata[contentType] = value
			continue
		}
		m.Metadata[attrPrefix+name] = value
	}
	for name, value := range e.Headers {
		if err := outbox.CheckHeader(name, value); err != nil {
			return nil, err
		}
		m.Metadata[name] = value
	}
	return m, nil
}

// metadata is a message's metadata, sorted out.
type metadata struct {
	attrs     map[string]string
	headers   map[string]string // all but attributes and Watermill's own; nil when there is none
	ambiguous error             // an attribute is there twice
}

// read sorts out a message's metadata. Its names count in any letters: some Pub/Subs
// change them. The values of a header that is there twice are joined, in the order of the
// names as they were written.
func read(m *message.Message) metadata {
	d := metadata{attrs: make(map[string]string, 12)}
	for _, written := range slices.Sorted(maps.Keys(m.Metadata)) {
		name, value := strings.ToLower(written), m.Metadata[written]
		attr, isAttr := attribute(name)
		switch {
		case isAttr:
			if _, twice := d.attrs[attr]; twice {
				d.ambiguous = fmt.Errorf("%w: an attribute is there twice", outbox.ErrNotAnEvent)
			}
			d.attrs[attr] = value
		case strings.HasPrefix(name, ownPrefix):
		default:
			if d.headers == nil {
				d.headers = make(map[string]string)
			}
			add(d.headers, name, value)
		}
	}
	return d
}

// add adds a header. Values under one name in other letters are joined, as those of
// one that is there twice.
func add(headers map[string]string, name, value string) {
	if first, has := headers[name]; has {
		value = first + "," + value
	}
	headers[name] = value
}

func attribute(name string) (attr string, ok bool) {
	if name == contentType {
		return attrContentType, true
	}
	if attr, ok = strings.CutPrefix(name, attrPrefix); ok {
		return attr, true
	}
	return strings.CutPrefix(name, attrPrefixDash)
}

// eventType is the type of an event in binary mode, "" when it isn't known without
// reading all of it.
func (d metadata) eventType() string {
	if outbox.IsStructured(d.attrs[attrContentType]) || d.ambiguous != nil {
		return ""
	}
	return d.attrs[attrType]
}

// envelope reads the event, in binary or structured mode. Its error is
// [outbox.ErrNotAnEvent].
func (d metadata) envelope(payload []byte) (outbox.Envelope, error) {
	if d.ambiguous != nil {
		return outbox.Envelope{}, d.ambiguous
	}
	if media := d.attrs[attrContentType]; outbox.IsStructured(media) {
		return outbox.EnvelopeFromStructured(media, d.headers, payload)
	}
	return outbox.EnvelopeFromAttributes(func(name string) string { return d.attrs[name] }, d.headers, payload)
}

// unreadable is a message that is no event, for [outbox.Handler.Park]. It has no
// reference: a message's UUID may be empty, or another one in each delivery.
func unreadable(m *message.Message, reason error) *outbox.Unreadable {
	return &outbox.Unreadable{Headers: maps.Clone(m.Metadata), Body: m.Payload, Reason: reason}
}
