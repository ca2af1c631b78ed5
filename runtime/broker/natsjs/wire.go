package natsjs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	attrPrefix = "ce-"
	natsPrefix = "nats-"

	// contentType is the header by which the binding tells its modes apart.
	contentType = "content-type"
)

// encode makes the message of an envelope, without what depends on the stream.
// An error means that this envelope can never be sent. It names a header, never
// shows its value.
func encode(subject string, e outbox.Envelope) (*nats.Msg, error) {
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	if e.ID == uuid.Nil || e.Type == "" || e.Source == "" || len(e.Data) == 0 {
		return nil, errors.New("the event lacks its id, type, source or payload")
	}
	h := make(nats.Header, 12+len(e.Headers))
	for name, value := range e.Attributes() {
		if value == "" { // CloudEvents allows no empty attribute, but its absence
			continue
		}
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("attribute %s isn't UTF-8", name)
		}
		h[attrPrefix+name] = []string{encodeValue(value)}
	}
	for name, value := range e.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
		h[name] = []string{value}
	}
	return &nats.Msg{Subject: subject, Header: h, Data: e.Data}, nil
}

// reservedHeader reports whether a header, in lower case, is NATS's own or the
// binding's: Nats-Rollup deletes messages, Nats-Msg-Id decides about duplicates,
// Content-Type tells the binding's modes apart.
func reservedHeader(name string) bool {
	return strings.HasPrefix(name, natsPrefix) || strings.HasPrefix(name, attrPrefix) || name == contentType
}

// checkHeader refuses what means something to a broker ([outbox.CheckHeader]), and
// what NATS would not hand over as it was written: nats.go trims blanks.
func checkHeader(name, value string) error {
	if err := outbox.CheckHeader(name, value); err != nil {
		return err
	}
	if reservedHeader(name) {
		return fmt.Errorf("header %q is reserved", name)
	}
	if strings.Trim(value, " ") != value {
		return fmt.Errorf("header %q: its value begins or ends with a blank", name)
	}
	return nil
}

// maxSubject keeps a subject well below the server's control line of 4 KiB, over
// which it cuts the connection.
const maxSubject = 1024

// checkSubject refuses what can't be published to, and "$…", where the server's
// own subjects are.
func checkSubject(s string) error {
	if s == "" || s[0] == '$' || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") ||
		len(s) > maxSubject || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) {
		return fmt.Errorf("subject %q: want tokens between dots, no blank, no '*', no '>', no '$' in front, at most %d bytes",
			shorten(s), maxSubject)
	}
	return nil
}

func shorten(s string) string {
	if len(s) <= 64 {
		return s
	}
	return s[:64] + "…"
}

// decode reads a message, in binary or structured mode. Its error is
// outbox.ErrNotAnEvent. Header names count in any letters, as the binding says; an
// attribute that is there twice makes the message ambiguous, and the values of any other
// header are joined, in the order of the names as they were written.
func decode(h nats.Header, data []byte) (outbox.Envelope, error) {
	attrs := make(map[string]string, 12)
	var (
		headers map[string]string
		media   []string
		bad     error
	)
	for _, written := range slices.Sorted(maps.Keys(h)) {
		name, values := strings.ToLower(written), h[written]
		attr, isAttr := strings.CutPrefix(name, attrPrefix)
		switch {
		case isAttr:
			if err := addAttribute(attrs, attr, values); err != nil {
				bad = err
			}
		case name == contentType:
			media = append(media, values...)
		case reservedHeader(name):
		default:
			if headers == nil {
				headers = make(map[string]string)
			}
			add(headers, name, strings.Join(values, ","))
		}
	}
	if media := strings.Join(media, ","); outbox.IsStructured(media) {
		return outbox.EnvelopeFromStructured(media, headers, data)
	}
	if bad != nil {
		return outbox.Envelope{}, bad
	}
	return outbox.EnvelopeFromAttributes(func(name string) string { return attrs[name] }, headers, data)
}

// add adds a header. Values under one name in other letters are joined, as those of
// one that is there twice.
func add(headers map[string]string, name, value string) {
	if first, has := headers[name]; has {
		value = first + "," + value
	}
	headers[name] = value
}

func addAttribute(attrs map[string]string, name string, values []string) error {
	if _, twice := attrs[name]; twice || len(values) != 1 {
		return fmt.Errorf("%w: attribute %q is there twice", outbox.ErrNotAnEvent, name)
	}
	value, err := decodeValue(values[0])
	if err != nil {
		return fmt.Errorf("%w: attribute %q: %w", outbox.ErrNotAnEvent, name, err)
	}
	attrs[name] = value
	return nil
}
