package natsjs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestValueEncodingOfTheBinding(t *testing.T) {
	for plain, wire := range map[string]string{
		"Euro € 😀":                "Euro%20%E2%82%AC%20%F0%9F%98%80", // the binding's own example
		"order.accepted":          "order.accepted",
		"100%":                    "100%25",
		`say "no"`:                "say%20%22no%22",
		"a\r\nnats-rollup: all":   "a%0D%0Anats-rollup:%20all",
		"\x7f~!":                  "%7F~!",
		"":                        "",
		`back\slash`:              `back\slash`,
		"2026-02-03T04:05:06.78Z": "2026-02-03T04:05:06.78Z",
	} {
		if got := encodeValue(plain); got != wire {
			t.Errorf("encodeValue(%q) = %q, want %q", plain, got, wire)
		}
		if got, err := decodeValue(wire); err != nil || got != plain {
			t.Errorf("decodeValue(%q) = %q, %v, want %q", wire, got, err, plain)
		}
	}
}

func TestDecodeValueOfOthers(t *testing.T) {
	for wire, plain := range map[string]string{
		"%e2%82%ac":     "€", // lower case
		"%41":           "A", // needlessly encoded
		`"a b"`:         "a b",
		`"a \"b\" \\c"`: `a "b" \c`,
		`"%20"`:         " ",
		"%2541":         "%41", // one round only
		"ü":             "ü",   // not encoded, though it should be
		`a"b"`:          `a"b"`,
	} {
		if got, err := decodeValue(wire); err != nil || got != plain {
			t.Errorf("decodeValue(%q) = %q, %v, want %q", wire, got, err, plain)
		}
	}
	for wire, want := range map[string]error{
		"%C0%A0": errUTF8, // overlong, the binding's example
		"%FF":    errUTF8,
		"\xff":   errUTF8,
		"%":      errPercent,
		"a%4":    errPercent,
		"%zz":    errPercent,
		`"`:      errQuoted,
		`"a`:     errQuoted,
		`"a"b"`:  errQuoted,
		`"a\"`:   errQuoted,
	} {
		if got, err := decodeValue(wire); !errors.Is(err, want) {
			t.Errorf("decodeValue(%q) = %q, %v, want the error %v", wire, got, err, want)
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{"", "a", "Euro € 😀", "%41", `"x"`, "\x00\r\n", "a%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = decodeValue(s) // anything may come in
		wire := encodeValue(s)
		for i := range len(wire) {
			if c := wire[i]; c <= ' ' || c >= 0x7f || c == '"' {
				t.Fatalf("encodeValue(%q) = %q has a character that has to be encoded", s, wire)
			}
		}
		got, err := decodeValue(wire)
		if utf8.ValidString(s) && (err != nil || got != s) {
			t.Fatalf("decodeValue(encodeValue(%q)) = %q, %v", s, got, err)
		}
		if !utf8.ValidString(s) && err == nil {
			t.Fatalf("%q isn't UTF-8 and was decoded to %q", s, got)
		}
	})
}

func envelopes() *rapid.Generator[outbox.Envelope] {
	text := rapid.StringMatching(`[\x00-\x{10FFFF}]{0,40}`)
	token := rapid.StringMatching(`[a-z][a-z0-9_]{0,8}(\.[a-z0-9_]{1,8}){0,3}`)
	return rapid.Custom(func(t *rapid.T) outbox.Envelope {
		return outbox.Envelope{
			ID:               uuid.NewSHA1(uuid.NameSpaceOID, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "id")),
			Source:           token.Draw(t, "source"),
			Type:             token.Draw(t, "type"),
			AggregateType:    text.Draw(t, "aggregate type"),
			AggregateID:      text.Draw(t, "aggregate id"),
			AggregateVersion: rapid.Int64().Draw(t, "aggregate version"),
			SchemaVersion:    rapid.Int().Draw(t, "schema version"),
			Time: time.Unix(rapid.Int64Range(0, 253402300799).Draw(t, "seconds"),
				1000*rapid.Int64Range(0, 999_999).Draw(t, "microseconds")).UTC(),
			Headers: rapid.MapOfN(rapid.StringMatching(`h[a-z0-9-]{0,8}`), text, 0, 5).Draw(t, "headers"),
			Data:    json.RawMessage(rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "data")),
		}
	})
}

// What is published comes back equal, after the connection's own encoding of the
// headers too, or is refused.
func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := envelopes().Draw(t, "envelope")
		m, err := encode("orders."+sent.Type, sent)
		if err != nil {
			for name, value := range sent.Headers {
				if checkHeader(name, value) != nil {
					return
				}
			}
			t.Fatalf("encode: %v", err)
		}
		wire := nats.NewMsg("x")
		wire.Header, err = nats.DecodeHeadersMsg(headerBytes(m.Header))
		if err != nil {
			t.Fatalf("headers: %v", err)
		}
		got, err := decode(wire.Header, m.Data)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if diff := cmp.Diff(sent, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-sent +got:\n%s", diff)
		}
	})
}

// headerBytes writes headers as nats.go does (nats.go, headerBytes), trimming and
// folding included.
func headerBytes(h nats.Header) []byte {
	var b strings.Builder
	b.WriteString("NATS/1.0\r\n")
	for name, values := range h {
		for _, v := range values {
			b.WriteString(name + ": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Trim(v, " \t\r\n")) + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

func TestHeadersOnTheWire(t *testing.T) {
	e := cafe()
	e.Headers = map[string]string{"traceparent": "00-1-2-01"}
	m, err := encode("orders.order.accepted", e)
	if err != nil {
		t.Fatal(err)
	}
	want := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {e.ID.String()}, "ce-source": {"orders"}, "ce-type": {"order.accepted"},
		"ce-subject": {"caf%C3%A9%201"}, "ce-time": {"2026-02-03T04:05:06.789012Z"}, "ce-datacontenttype": {"application/json"},
		"ce-aggregatetype": {"order"}, "ce-aggregateversion": {"7"}, "ce-schemaversion": {"2"},
		"ce-traceparent": {"00-1-2-01"}, "traceparent": {"00-1-2-01"},
	}
	if diff := cmp.Diff(want, m.Header); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// nats.go would trim these; the event would arrive changed.
func TestBlanksAroundAHeader(t *testing.T) {
	for _, value := range []string{" a", "a ", " "} {
		e := cafe()
		e.Headers = map[string]string{"note": value}
		if _, err := encode("orders.x", e); err == nil {
			t.Errorf("the header value %q is taken", value)
		}
	}
}

func cafe() outbox.Envelope {
	return outbox.Envelope{
		ID: outbox.NewEventID(), Source: "orders", Type: "order.accepted", AggregateType: "order", AggregateID: "café 1",
		AggregateVersion: 7, SchemaVersion: 2, Time: time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, time.UTC),
		Data: json.RawMessage(`{}`),
	}
}

func TestDecodeForeignHeaders(t *testing.T) {
	e := cafe()
	base := func() nats.Header {
		m, err := encode("orders.order.accepted", e)
		if err != nil {
			t.Fatal(err)
		}
		return m.Header
	}
	t.Run("names in other letters", func(t *testing.T) {
		h := make(nats.Header)
		for name, values := range base() {
			h[strings.ToUpper(name)] = values
		}
		h["Traceparent"], h["Nats-Stream"], h["Content-Type"] = []string{"1"}, []string{"X"}, []string{"application/json"}
		got, err := decode(h, e.Data)
		want := e
		want.Headers = map[string]string{"traceparent": "1"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
	for name, change := range map[string]func(nats.Header){
		"not in structured mode": func(h nats.Header) { h["Content-Type"] = []string{"Application/CloudEvents+json"} },
		"batch mode":             func(h nats.Header) { h["content-type"] = []string{"application/cloudevents-batch+json"} },
		"attribute twice":        func(h nats.Header) { h["ce-id"] = append(h["ce-id"], h["ce-id"][0]) },
		"in other letters":       func(h nats.Header) { h["CE-ID"] = h["ce-id"] },
		"not UTF-8":              func(h nats.Header) { h["ce-subject"] = []string{"%FF"} },
		"id in another form":     func(h nats.Header) { h["ce-id"] = []string{strings.ToUpper(h["ce-id"][0])} },
		"no id":                  func(h nats.Header) { delete(h, "ce-id") },
		"no specversion":         func(h nats.Header) { delete(h, "ce-specversion") },
		"version isn't a number": func(h nats.Header) { h["ce-aggregateversion"] = []string{"one"} },
	} {
		t.Run(name, func(t *testing.T) {
			h := base()
			change(h)
			if got, err := decode(h, e.Data); !errors.Is(err, outbox.ErrNotAnEvent) {
				t.Errorf("%+v, %v, want ErrNotAnEvent", got, err)
			}
		})
	}
	if _, err := decode(nil, nil); !errors.Is(err, outbox.ErrNotAnEvent) {
		t.Errorf("no headers: %v, want ErrNotAnEvent", err)
	}
}

func TestSubjects(t *testing.T) {
	for _, good := range []string{"orders.order.accepted", "a", "Größe.x", "a-b_c.d", "/urn:x/y.order"} {
		if err := checkSubject(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		"", ".", ".a", "a.", "a..b", "a b", "a.*", "a.>", "a*b", "a\tb", "a\r\nPUB x 0", "$JS.API.STREAM.DELETE.X", "$SYS.x",
		"a\xffb", "a\x00", strings.Repeat("a", maxSubject+1),
	} {
		if err := checkSubject(bad); err == nil {
			t.Errorf("subject %q is taken", bad)
		}
	}
}

// Names that differ in their letters only: what is read is the same each time.
func TestHeadersInOtherLetters(t *testing.T) {
	t.Parallel()
	for range 100 {
		m, err := encode("orders.order.accepted", cafe())
		if err != nil {
			t.Fatal(err)
		}
		m.Header["tenant"], m.Header["Tenant"], m.Header["TENANT"] = []string{"c"}, []string{"b", "b"}, []string{"a"}
		m.Header["Content-Type"], m.Header["content-type"] = []string{"application/json"}, []string{outbox.StructuredType}
		e, err := decode(m.Header, m.Data)
		if err != nil || e.Headers["tenant"] != "a,b,b,c" {
			t.Fatalf("read %q, %v, want a,b,b,c", e.Headers["tenant"], err)
		}
	}
}
