package outboxotel

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/purge"
)

// Subscription tells of the stats of a consumer's subscription, those that are in the
// broker's SubscribeConfig. Call it once a consumer.
func (t *Telemetry) Subscription(consumer string, s *outbox.SubscribeStats) error {
	attrs := with(attribute.String(attrConsumer, t.consumers.known(consumer)))
	b := builder{meter: t.meter}
	var all totals
	for _, c := range []struct {
		name, unit, text string
		value            *atomic.Int64
	}{
		{"delivered", "{message}", "Messages received, repeats among them.", &s.Delivered},
		{"redelivered", "{message}", "Messages that the broker says it had delivered before.", &s.Redelivered},
		{"handled", "{message}", "Messages that were handled, unreadable ones among them.", &s.Handled},
		{"unreadable", "{message}", "Messages that aren't events, and were parked.", &s.Unreadable},
		{"failed", "{message}", "Errors of the handler that a redelivery follows.", &s.Failed},
		{"held_back", "{message}", "Messages given back because an earlier event of the aggregate waits.", &s.HeldBack},
		{"panics", "{message}", "Panics that came through Handle.", &s.Panics},
		{"pauses", "{pause}", "Times that the database could not be worked with.", &s.Pauses},
		{"acked", "{message}", "Acknowledgements that the broker has, as far as it tells.", &s.Acked},
		{"ack_failed", "{message}", "Acknowledgements that got lost; the messages come again.", &s.AckFailed},
	} {
		all.add(b.total("outbox.subscription."+c.name, c.unit, c.text), c.value.Load)
	}
	return b.observe(all.callback(attrs), all.instruments...)
}

// Purger tells of a purger's stats, under a name such as events or dedup. Call it once a purger.
func (t *Telemetry) Purger(name string, p *purge.Purger) error {
	of := func(value func(purge.Stats) int64) func() int64 { return func() int64 { return value(p.Stats()) } }
	b := builder{meter: t.meter}
	var all totals
	for _, c := range []struct {
		name, unit, text string
		value            func(purge.Stats) int64
	}{
		{"events", "{event}", "Published events that were deleted.", func(s purge.Stats) int64 { return s.Events }},
		{"dedup_rows", "{row}", "Dedup rows that were deleted.", func(s purge.Stats) int64 { return s.Consumed }},
		{"deferred", "{batch}", "Batches that met a row locked for long, and are tried again.", func(s purge.Stats) int64 { return s.Deferred }},
		{"passes", "{pass}", "Passes that this purger was elected for.", func(s purge.Stats) int64 { return s.Passes }},
		{"failures", "{pass}", "Passes that ended with an error.", func(s purge.Stats) int64 { return s.Failures }},
	} {
		all.add(b.total("outbox.purge."+c.name, c.unit, c.text), of(c.value))
	}
	return b.observe(all.callback(with(attribute.String(attrPurger, name))), all.instruments...)
}

// totals are counters that somebody else counts up.
type totals struct {
	instruments []metric.Observable
	observe     []func(metric.Observer, metric.ObserveOption)
}

func (t *totals) add(c metric.Int64ObservableCounter, value func() int64) {
	t.instruments = append(t.instruments, c)
	t.observe = append(t.observe, func(o metric.Observer, attrs metric.ObserveOption) { o.ObserveInt64(c, value(), attrs) })
}

func (t *totals) callback(attrs metric.ObserveOption) metric.Callback {
	return func(_ context.Context, o metric.Observer) error {
		for _, observe := range t.observe {
			observe(o, attrs)
		}
		return nil
	}
}
