package natsjs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// BenchmarkPublish publishes batches of 500 events, of one aggregate or of 500, in
// order and not: what the order of a hot aggregate costs.
func BenchmarkPublish(b *testing.B) {
	server := natsserver.StartT(b, natsserver.Config{})
	nc, err := nats.Connect(server.URL(), ConnOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}}); err != nil {
		b.Fatal(err)
	}
	const batch = 500
	for _, aggregates := range []int{1, 20, batch} {
		for _, unordered := range []bool{false, true} {
			b.Run(fmt.Sprintf("aggregates=%d/unordered=%v", aggregates, unordered), func(b *testing.B) {
				p, err := NewPublisher(js, PublisherConfig{Stream: stream, Unordered: unordered})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for b.Loop() {
					events := make([]outbox.Envelope, batch)
					for i := range events {
						events[i] = brokersuite.Event(fmt.Sprint(i%aggregates), int64(i))
					}
					if err := errors.Join(p.Publish(b.Context(), events)...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkSubscribe handles batches of 2000 events that wait in the stream, of as
// many aggregates or of one, with a handler that does nothing.
func BenchmarkSubscribe(b *testing.B) {
	server := natsserver.StartT(b, natsserver.Config{})
	nc, err := nats.Connect(server.URL(), ConnOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	const batch = 2000
	for _, aggregates := range []int{1, batch} {
		for _, concurrency := range []int{1, 8} {
			b.Run(fmt.Sprintf("aggregates=%d/concurrency=%d", aggregates, concurrency), func(b *testing.B) {
				name := fmt.Sprintf("S%d-%d", aggregates, concurrency)
				if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}); err != nil {
					b.Fatal(err)
				}
				p, err := NewPublisher(js, PublisherConfig{Stream: name, SubjectPrefix: name, Unordered: true})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				handled := make(chan struct{}, batch)
				nothing := funcHandler(func(context.Context, outbox.Envelope) error { handled <- struct{}{}; return nil })
				for b.Loop() {
					b.StopTimer()
					events := make([]outbox.Envelope, batch)
					for i := range events {
						events[i] = brokersuite.Event(fmt.Sprint(i%aggregates), int64(i))
					}
					if err := errors.Join(p.Publish(b.Context(), events)...); err != nil {
						b.Fatal(err)
					}
					ctx, cancel := context.WithCancel(b.Context())
					done := make(chan error, 1)
					b.StartTimer()
					go func() {
						done <- Subscribe(ctx, js, nothing, SubscribeConfig{Stream: name, SubjectPrefix: name, Concurrency: concurrency})
					}()
					for range batch {
						<-handled
					}
					cancel()
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
