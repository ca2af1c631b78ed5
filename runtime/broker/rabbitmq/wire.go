package rabbitmq

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// attrPrefix comes before an attribute's name. Where a broker on the way doesn't allow
	// a colon it is attrPrefixJMS (section 3.1.3.1 of the AMQP binding). Both are read.
	attrPrefix    = "cloudEvents:"
	attrPrefixJMS = "cloudEvents_"

	contentTypeAttr = "datacontenttype" // goes as the content type

	// headerDeliveries counts how often a message has been delivered before it was put
	// into a queue to wait.
	headerDeliveries = "x-outboxgen-deliveries"

	// headerDeliveryCount is a quorum queue's own count of what it has taken back.
	headerDeliveryCount = "x-delivery-count"

	// maxShortString is AMQP's, for the names of exchanges and for routing keys, in bytes.
	maxShortString = 255
)

// encode makes the message of an envelope. An error means that this envelope can never be
// sent. It names a header, never shows its value.
func encode(e outbox.Envelope) (amqp.Publishing, error) {
	if e.ID == uuid.Nil || e.Type == "" || e.Source == "" || len(e.Data) == 0 {
		return amqp.Publishing{}, errors.New("the event lacks its id, type, source or payload")
	}
	m := amqp.Publishing{
		Headers:      make(amqp.Table, 12+len(e.Headers)),
		DeliveryMode: amqp.Persistent,
		MessageId:    e.ID.String(),
		Body:         e.Data,
	}
	for name, value := range e.Attributes() {
		switch {
		case value == "": // CloudEvents allows no empty attribute, but its absence
		case !utf8.ValidString(value):
			return amqp.Publishing{}, fmt.Errorf("attribute %s isn't UTF-8", name)
		case name == contentTypeAttr:
			m.ContentType = value
		default:
			m.Headers[attrPrefix+name] = value
		}
	}
	for name, value := range e.Headers {
		// It refuses what is a command here: CC and BCC add routing keys, x-… are
		// the broker's own.
		if err := outbox.CheckHeader(name, value); err != nil {
			return amqp.Publishing{}, err
		}
		if len(name) > maxShortString {
			return amqp.Publishing{}, fmt.Errorf("a header's name is longer than %d bytes", maxShortString)
		}
		m.Headers[name] = value
	}
	return m, nil
}

// checkPlace refuses names that AMQP can't carry. Its own error for them would end the
// channel.
func checkPlace(exchange, key string) error {
	for what, name := range map[string]string{"exchange": exchange, "routing key": key} {
		if len(name) > maxShortString || !utf8.ValidString(name) {
			return fmt.Errorf("%s: want UTF-8 of at most %d bytes", what, maxShortString)
		}
	}
	if exchange == "" && key == "" {
		return errors.New("neither an exchange nor a routing key")
	}
	return nil
}

// decode reads a message, in binary or in structured mode. Its error is
// outbox.ErrNotAnEvent. Header names count in any letters; an attribute that is there
// twice makes the message ambiguous, and the values of any other header are joined, in the
// order of the names as they were written.
func decode(d amqp.Delivery) (outbox.Envelope, error) {
	attrs := make(map[string]string, 12)
	var headers map[string]string
	for _, written := range slices.Sorted(maps.Keys(d.Headers)) {
		attr, isAttr := cutAttrPrefix(written)
		text, isText := textOf(d.Headers[written])
		name := strings.ToLower(written)
		switch {
		case isAttr:
			if _, twice := attrs[attr]; twice || !isText {
				return outbox.Envelope{}, fmt.Errorf("%w: attribute %q is there twice or is no scalar", outbox.ErrNotAnEvent, attr)
			}
			attrs[attr] = text
		case !isText || reserved(name):
		default:
			if headers == nil {
				headers = make(map[string]string)
			}
			add(headers, name, text)
		}
	}
	if outbox.IsStructured(d.ContentType) {
		return outbox.EnvelopeFromStructured(d.ContentType, headers, d.Body)
	}
	attrs[contentTypeAttr] = d.ContentType
	return outbox.EnvelopeFromAttributes(func(name string) string { return attrs[name] }, headers, d.Body)
}

// add adds a header. Values under one name in other letters are joined, as those of
// one that is there twice.
func add(headers map[string]string, name, value string) {
	if first, has := headers[name]; has {
		value = first + "," + value
	}
	headers[name] = value
}

func cutAttrPrefix(name string) (attr string, ok bool) {
	for _, prefix := range []string{attrPrefix, attrPrefixJMS} {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return strings.ToLower(name[len(prefix):]), true
		}
	}
	return "", false
}

// reserved reports whether a header, in lower case, is the broker's own, or ours.
func reserved(name string) bool {
	return strings.HasPrefix(name, "x-") || name == "cc" || name == "bcc"
}

// textOf is a scalar's canonical string in CloudEvents.
func textOf(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	}
	if n, ok := intOf(value); ok {
		return strconv.FormatInt(n, 10), true
	}
	return "", false
}

func intOf(value any) (n int64, ok bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case byte:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	default:
		return 0, false
	}
}

// unreadable is a message that isn't an event. What changes from one delivery to the next
// is left out of its headers, for they stand in for a reference, which AMQP has not.
func unreadable(d amqp.Delivery, reason error) *outbox.Unreadable {
	headers := make(map[string]string, len(d.Headers)+4)
	for name, value := range d.Headers {
		if text, ok := textOf(value); ok && !reserved(strings.ToLower(name)) {
			headers[name] = text
		}
	}
	for name, value := range map[string]string{
		"content-type": d.ContentType, "content-encoding": d.ContentEncoding, "message-id": d.MessageId,
		"correlation-id": d.CorrelationId, "reply-to": d.ReplyTo, "type": d.Type, "app-id": d.AppId,
	} {
		if value != "" {
			headers[name] = value
		}
	}
	return &outbox.Unreadable{Headers: headers, Body: d.Body, Reason: reason}
}

// deliveries is how often a message has been delivered, this time included.
func deliveries(d amqp.Delivery) int {
	before, _ := intOf(d.Headers[headerDeliveries])
	taken, _ := intOf(d.Headers[headerDeliveryCount])
	if taken == 0 && d.Redelivered { // a classic queue doesn't count
		taken = 1
	}
	return int(max(before, 0) + max(taken, 0) + 1)
}

// toWait is the message as it is put into a queue to wait. What the broker has added is
// left out, and so are commands to it: CC and BCC would send it to other queues as
// well, a user id would have to be ours, an expiration would apply, a reply-to may be
// bound to the connection it came from.
func toWait(d amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table, len(d.Headers)+1)
	for name, value := range d.Headers {
		if !reserved(strings.ToLower(name)) {
			headers[name] = value
		}
	}
	headers[headerDeliveries] = int64(deliveries(d))
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: amqp.Persistent, Priority: d.Priority, CorrelationId: d.CorrelationId,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}
