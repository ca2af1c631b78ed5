package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestCheckJSON(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	good := []string{
		`{}`, `[]`, `null`, `"x"`, `true`, `0`, `-1`, `9223372036854775807`, `18446744073709551615`,
		`0.1`, `1.0`, `1e22`, `1.5E-3`, `123456.789`, `0.0`, `5e-324`, `{"a":{"b":[1,2,{"c":null}]}}`,
		`{"a":1,"A":2}`, `"\u0000"`,
	}
	bad := []string{
		``, `{`, `{"a":1}x`, `{"a":1} {"b":2}`, `18446744073709551616`, `-9223372036854775809`,
		`12345678901234567890123`, `0.12345678901234567890123`, `1e400`, `-0`, `{"a":1,"a":2}`,
		`[{"x":{"a":1,"a":2}}]`, "\"\xff\"", deep, `nul`, `1e-400`,
	}
	for _, doc := range good {
		if err := outbox.CheckJSON(json.RawMessage(doc)); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
	for _, doc := range bad {
		if err := outbox.CheckJSON(json.RawMessage(doc)); err == nil {
			t.Errorf("%s: no error", doc)
		}
	}
}

func TestTimestamp(t *testing.T) {
	zone := time.FixedZone("", -5*3600)
	in := outbox.TimestampOf(time.Date(2026, 11, 30, 20, 4, 16, 123456789, zone))
	data, err := json.Marshal(in)
	if err != nil || string(data) != `"2026-12-01T01:04:16.123456Z"` {
		t.Fatalf("%s, %v", data, err)
	}
	var out outbox.Timestamp
	if err := json.Unmarshal(data, &out); err != nil || out != in {
		t.Errorf("came back as %v (%v), was %v", out, err, in)
	}
	if err := json.Unmarshal([]byte(`"yesterday"`), &out); err == nil || strings.Contains(err.Error(), "yesterday") {
		t.Errorf("got %v: want an error without the value", err)
	}
	far := outbox.TimestampOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	if _, err := json.Marshal(far); err == nil {
		t.Error("year 10000 was encoded")
	}
}

func TestDate(t *testing.T) {
	for _, text := range []string{"2026-02-28", "2024-02-29", "0001-01-01", "9999-12-31"} {
		var d outbox.Date
		if err := json.Unmarshal([]byte(`"`+text+`"`), &d); err != nil || d.String() != text || d.Validate() != nil {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{`"2026-02-29"`, `"2026-2-1"`, `"x"`, `1`} {
		if err := json.Unmarshal([]byte(text), new(outbox.Date)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if _, err := json.Marshal(outbox.Date{}); err == nil {
		t.Error("the zero date was encoded")
	}
}

func TestDurationAndDecimal(t *testing.T) {
	type both struct {
		D outbox.Duration
		M outbox.Decimal
	}
	in := both{outbox.Duration(90*time.Minute + 500*time.Millisecond), "-0012345678901234567890.1234567890"}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out both
	if err := json.Unmarshal(data, &out); err != nil || out != in {
		t.Errorf("%s came back as %+v (%v)", data, out, err)
	}
	for _, bad := range []outbox.Decimal{"", ".5", "1.", "1e3", "+1", "NaN", " 1", "1,5", "--1"} {
		if bad.Validate() == nil {
			t.Errorf("%q is no decimal", bad)
		}
	}
}

func TestCheckNamesFieldsAndHoldsNoValues(t *testing.T) {
	var c outbox.Check
	c.String("name", "secret\xff")
	c.In(outbox.At("lines", 2), func(c *outbox.Check) {
		c.Float("weight", math.NaN())
		c.In("price", func(c *outbox.Check) { c.Value("amount", outbox.Decimal("secret")) })
	})
	c.Enum("currency", false)
	c.JSON("extra", json.RawMessage(`{"secret":`))
	c.String("fine", "fine")
	err := c.Err()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"name: ", "lines[2].weight: ", "lines[2].price.amount: ", "currency: ", "extra: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "fine") {
		t.Errorf("%q holds a value", err)
	}
}

func TestDecodeErrorsHoldNoValues(t *testing.T) {
	type payload struct {
		N int32 `json:"n"`
	}
	for _, data := range []string{`{"n":99999999999}`, `{"n":"4111111111111111"}`, `{"n":4111111111111111`, `4111111111111111`} {
		_, err := outbox.DecodePayload[payload]([]byte(data))
		if err == nil || strings.Contains(err.Error(), "4111") || strings.Contains(err.Error(), "9999") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// quoting is a type of somebody else's, whose error quotes what it got.
type quoting struct{}

func (*quoting) UnmarshalText(text []byte) error { return fmt.Errorf("can't read %q", text) }

func (quoting) Validate() error              { return errors.New("secret is not valid") }
func (quoting) MarshalText() ([]byte, error) { return nil, errors.New("can't write secret") }

func TestForeignErrorsOfAWriterHoldNoValues(t *testing.T) {
	var c outbox.Check
	c.Value("q", quoting{})
	if err := c.Err(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	_, db := newFakeDB()
	_, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error {
		return outbox.Write(t.Context(), tx, record(unencodable{}), insertRow)
	})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

type unencodable struct{ Q quoting }

func (unencodable) Validate() error { return nil }

func TestForeignDecodeErrorsHoldNoValues(t *testing.T) {
	type payload struct{ Q quoting }
	_, err := outbox.DecodePayload[payload]([]byte(`{"Q":"secret"}`))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestMessagesPrintNoPayload(t *testing.T) {
	type payload struct{ Card string }
	m := outbox.Message[payload]{
		Envelope: outbox.Envelope{
			ID: outbox.NewEventID(), Type: "card.added",
			Headers: map[string]string{"secret": "secret"}, Data: json.RawMessage(`{"Card":"secret"}`),
		},
		Payload: payload{Card: "secret"},
	}
	var log strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("got", "message", m, "envelope", m.Envelope)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
		fmt.Fprintf(&log, verb+verb, m, m.Envelope)
	}
	if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "736563726574") {
		t.Errorf("the payload was printed:\n%s", log.String())
	}
	if !strings.Contains(log.String(), m.Envelope.ID.String()) {
		t.Error("the event id was not")
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	in := outbox.Envelope{
		ID: outbox.NewEventID(), Source: "orders", Type: "order.accepted",
		AggregateType: "order", AggregateID: "Zürich/7 \"x\"", AggregateVersion: math.MaxInt64, SchemaVersion: 3,
		Time:    time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC),
		Headers: map[string]string{"traceparent": "00-x"}, Data: json.RawMessage(`{"a":1}`),
	}
	attributes := map[string]string{}
	for name, value := range in.Attributes() {
		attributes[name] = value
	}
	get := func(name string) string { return attributes[name] }
	out, err := outbox.EnvelopeFromAttributes(get, in.Headers, in.Data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}

	for name, bad := range map[string]string{
		"specversion": "0.3", "id": strings.ToUpper(in.ID.String()), "type": "", "source": "",
		"aggregateversion": "x", "schemaversion": "", "time": "now", "datacontenttype": "text/xml", "subject": "\xff",
	} {
		good := attributes[name]
		attributes[name] = bad
		if _, err := outbox.EnvelopeFromAttributes(get, nil, nil); !errors.Is(err, outbox.ErrNotAnEvent) {
			t.Errorf("%s %q: %v", name, bad, err)
		}
		attributes[name] = good
	}
}

func TestParseEventID(t *testing.T) {
	id := outbox.NewEventID()
	if got, err := outbox.ParseEventID(id.String()); err != nil || got != id || id.Version() != 7 {
		t.Errorf("%v (version %d): %v, %v", id, id.Version(), got, err)
	}
	for _, bad := range []string{
		"", "x", strings.ToUpper("0190aaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa"), "urn:uuid:" + id.String(), "{" + id.String() + "}",
		strings.ReplaceAll(id.String(), "-", ""), "00000000-0000-0000-0000-000000000000", id.String() + " ",
		"Duplicate' for key 'uq_consumed_event_identity",
	} {
		if _, err := outbox.ParseEventID(bad); !errors.Is(err, outbox.ErrNotEventID) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
