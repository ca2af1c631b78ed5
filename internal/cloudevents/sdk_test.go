// Package cloudevents shows that the official CloudEvents SDK reads what we put on
// each broker, and that we read what it writes. The SDK's core is used: its modules for
// single brokers are thin layers on it, as [received] and [written] here are.
package cloudevents

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// names are how a protocol binding maps attributes to headers.
type names struct {
	prefix      string // of an attribute's header
	contentType string // the header of datacontenttype; empty when that is an attribute like the others
	percent     bool   // values are percent-encoded
}

// structuredHeader tells of structured mode. A carrier whose broker has a property for the
// content type maps it to and from that.
const structuredHeader = "content-type"

// wire is a message as a broker has it.
type wire struct {
	headers map[string]string
	body    []byte
}

// received lets the SDK read a message in binary mode.
type received struct {
	names
	wire
}

func (r received) version() spec.Version {
	return spec.WithPrefix(r.prefix).Version(r.headers[r.prefix+"specversion"])
}

func (r received) ReadEncoding() binding.Encoding {
	if r.version() == nil {
		return binding.EncodingUnknown
	}
	return binding.EncodingBinary
}

func (received) ReadStructured(context.Context, binding.StructuredWriter) error {
	return binding.ErrNotStructured
}

func (r received) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	version := r.version()
	for name, value := range r.headers {
		value, err := r.decode(name, value)
		if err != nil {
			return err
		}
		attr := version.Attribute(name)
		if name == r.contentType {
			attr = version.AttributeFromKind(spec.DataContentType)
		}
		switch extension, isAttr := strings.CutPrefix(name, r.prefix); {
		case attr != nil:
			err = w.SetAttribute(attr, value)
		case isAttr:
			err = w.SetExtension(extension, value)
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(r.body))
}

func (r received) decode(name, value string) (string, error) {
	if !r.percent || !strings.HasPrefix(name, r.prefix) {
		return value, nil
	}
	return url.PathUnescape(value)
}

// GetAttribute is what the SDK asks for with transformers, of which there are none.
func (received) GetAttribute(spec.Kind) (spec.Attribute, any) { return nil, nil }

// GetExtension is like GetAttribute.
func (received) GetExtension(string) any { return nil }

// sdkEvent is what the SDK makes of a message.
func sdkEvent(t *testing.T, n names, w wire) *event.Event {
	t.Helper()
	e, err := binding.ToEvent(t.Context(), received{n, w})
	if err != nil {
		t.Fatalf("the SDK can't read it: %v", err)
	}
	if err := e.Validate(); err != nil {
		t.Fatalf("the SDK finds it invalid: %v", err)
	}
	return e
}

// written takes what the SDK writes, in either mode.
type written struct {
	names
	wire
}

func (w *written) Start(context.Context) error { return nil }
func (w *written) End(context.Context) error   { return nil }

func (w *written) SetStructuredEvent(_ context.Context, f format.Format, body io.Reader) (err error) {
	w.headers[structuredHeader] = f.MediaType()
	w.body, err = io.ReadAll(body)
	return err
}

func (w *written) SetAttribute(attr spec.Attribute, value any) error {
	if attr.Kind() == spec.DataContentType && w.contentType != "" {
		return w.set(w.contentType, value, false)
	}
	return w.set(w.prefix+attr.Name(), value, w.percent)
}

func (w *written) SetExtension(name string, value any) error {
	return w.set(w.prefix+name, value, w.percent)
}

func (w *written) set(header string, value any, percent bool) error {
	text, err := types.Format(value)
	if percent {
		text = url.PathEscape(text)
	}
	w.headers[header] = text
	return err
}

func (w *written) SetData(body io.Reader) (err error) {
	w.body, err = io.ReadAll(body)
	return err
}

// sdkWrites is an event as the SDK writes it.
func sdkWrites(t *testing.T, n names, e event.Event, structured bool) wire {
	t.Helper()
	ctx, want := binding.WithForceBinary(t.Context()), binding.EncodingBinary
	if structured {
		ctx, want = binding.WithForceStructured(t.Context()), binding.EncodingStructured
	}
	w := &written{n, wire{headers: make(map[string]string)}}
	if got, err := binding.Write(ctx, binding.ToMessage(&e), w, w); err != nil || got != want {
		t.Fatalf("the SDK wrote encoding %v, %v, want %v", got, err, want)
	}
	return w.wire
}
