package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// StructuredType is the media type of a CloudEvents event in structured mode, of
// which only the JSON form is read. A binding tells its mode by the beginning
// "application/cloudevents".
const StructuredType = "application/cloudevents+json"

// IsStructured reports whether a content type is that of CloudEvents' structured or
// batch mode.
func IsStructured(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "application/cloudevents")
}

// EnvelopeFromStructured reads a message in CloudEvents' structured mode
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md):
// attributes and data in one JSON object. headers are the message's own, as in
// [EnvelopeFromAttributes].
func EnvelopeFromStructured(contentType string, headers map[string]string, body []byte) (Envelope, error) {
	mediaType, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(mediaType), StructuredType) {
		return Envelope{}, fmt.Errorf("%w: of the structured modes only %s is read", ErrNotAnEvent, StructuredType)
	}
	if !utf8.Valid(body) {
		return Envelope{}, fmt.Errorf("%w: the body is not UTF-8", ErrNotAnEvent)
	}
	members, err := jsonMembers(body)
	if err != nil {
		return Envelope{}, err
	}
	data, err := structuredData(members)
	if err != nil {
		return Envelope{}, err
	}
	return EnvelopeFromAttributes(func(name string) string { return attributeText(members[name]) }, headers, data)
}

// jsonMembers reads a JSON object. Of two members of one name encoding/json would keep the
// last, and another reader the first.
func jsonMembers(body []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if begin, _ := dec.Token(); begin != json.Delim('{') || !json.Valid(body) {
		return nil, fmt.Errorf("%w: the body is not a JSON object", ErrNotAnEvent)
	}
	members := make(map[string]json.RawMessage)
	for dec.More() { // of a valid object nothing can fail
		token, _ := dec.Token()
		name, _ := token.(string)
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("%w: an attribute is there twice", ErrNotAnEvent)
		}
		var value json.RawMessage
		_ = dec.Decode(&value)
		members[name] = value
	}
	return members, nil
}

func structuredData(members map[string]json.RawMessage) (json.RawMessage, error) {
	data, plain := members["data"]
	encoded, base64 := members["data_base64"]
	switch {
	case plain && base64:
		return nil, fmt.Errorf("%w: it has both data and data_base64", ErrNotAnEvent)
	case !base64:
		return data, nil
	}
	var b []byte
	if err := json.Unmarshal(encoded, &b); err != nil {
		return nil, fmt.Errorf("%w: data_base64 is not base64", ErrNotAnEvent)
	}
	return b, nil
}

// attributeText is an attribute's canonical string: numbers and booleans are
// written as they stand. Anything else is no attribute.
func attributeText(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	if v[0] == '"' {
		var s string
		if json.Unmarshal(v, &s) != nil {
			return ""
		}
		return s
	}
	if v[0] == '{' || v[0] == '[' || v[0] == 'n' {
		return ""
	}
	return string(v)
}
