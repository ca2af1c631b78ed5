package history

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// identical is I8. A JSON column may lay a document out anew (MySQL's has its own order
// of keys), so that the broker's payload is compared with the writer's as JSON; all
// copies of it, and what handlers got, byte by byte.
func (j *judge) identical() {
	if !j.observed("what writers handed over", j.Written != nil) || !j.observed("the broker's messages", j.Messages != nil) {
		return
	}
	written := make(map[uuid.UUID][]byte, len(j.Written))
	for _, w := range j.Written {
		written[w.EventID] = w.Payload
	}
	first := make(map[uuid.UUID][]byte, len(j.Messages))
	for _, m := range j.Messages {
		payload, repeat := first[m.EventID]
		switch {
		case repeat && !bytes.Equal(payload, m.Payload):
			j.violate("the payload of event %s differs between its messages", m.EventID)
		case repeat:
		case written[m.EventID] == nil:
			j.violate("the broker has a payload of event %s, which no writer handed over", m.EventID)
		case !SameJSON(written[m.EventID], m.Payload):
			j.violate("the payload of event %s is not what was written", m.EventID)
		}
		if !repeat {
			first[m.EventID] = m.Payload
		}
	}
	handled := 0
	for _, e := range j.Effects {
		if e.Payload == nil {
			continue
		}
		handled++
		if payload, ok := first[e.EventID]; ok && !bytes.Equal(payload, e.Payload) {
			j.violate("%v: the handler got another payload than the broker has", pair{e.EventID, e.Consumer})
		}
	}
	j.count(len(j.Messages), "payloads at the broker")
	j.count(handled, "payloads handled")
}

// SameJSON compares documents by what they say: neither the order of keys nor blanks
// count, nor how a number that isn't whole is written.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decodeJSON(a)
	y, errY := decodeJSON(b)
	return errX == nil && errY == nil && sameValue(x, y)
}

func decodeJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a.String(), b.String())
	default: // a string, a boolean or null
		return a == b
	}
}

func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a+b, ".eE") {
		return false // whole numbers, which a float64 can't always tell apart
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}
