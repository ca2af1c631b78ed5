package rabbitmq

import (
	"context"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestSubscribeSettings(t *testing.T) {
	t.Parallel()
	c := Connector{URLs: []string{"amqp://127.0.0.1:1/"}}
	good := handler{name: "projector"}
	slow := handler{name: "projector", limits: outbox.Limits{Timeout: time.Hour}}
	for name, s := range map[string]struct {
		h   handler
		cfg SubscribeConfig
	}{
		"no name":          {handler{}, SubscribeConfig{Queue: "q"}},
		"no queue":         {good, SubscribeConfig{}},
		"not in topology":  {good, SubscribeConfig{Topology: outbox.Topology{Consumers: []outbox.ConsumerTopology{{Name: "other", Queue: "q"}}}}},
		"both":             {good, SubscribeConfig{Queue: "q", Topology: outbox.Topology{Consumers: []outbox.ConsumerTopology{{Name: "projector", Queue: "q"}}}}},
		"negative":         {good, SubscribeConfig{Queue: "q", Backoff: -1}},
		"small prefetch":   {good, SubscribeConfig{Queue: "q", Concurrency: 10, Prefetch: 5}},
		"large prefetch":   {good, SubscribeConfig{Queue: "q", Prefetch: 65_536}},
		"large default":    {good, SubscribeConfig{Queue: "q", Concurrency: 65_536}},
		"unsorted delays":  {good, SubscribeConfig{Queue: "q", RetryDelays: []time.Duration{2 * time.Second, time.Second}}},
		"split delay":      {good, SubscribeConfig{Queue: "q", RetryDelays: []time.Duration{1500 * time.Microsecond}}},
		"consumer_timeout": {slow, SubscribeConfig{Queue: "q"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // nothing is to be waited for
		if err := Subscribe(ctx, c, s.h, s.cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Subscribe(ctx, c, good, SubscribeConfig{Queue: "q"}); err != nil {
		t.Errorf("good settings, ended before it began: %v", err)
	}
}

// What AMQP has no room for would wrap round, at 65,536 to no limit.
func TestPrefetchFitsAMQP(t *testing.T) {
	t.Parallel()
	h := handler{name: "projector"}
	for concurrency, want := range map[int]int{1: 32, 100: 400, 16_384: 65_535, 65_535: 65_535} {
		cfg := SubscribeConfig{Queue: "q", Concurrency: concurrency}
		if err := cfg.validate(h); err != nil {
			t.Errorf("Concurrency %d: %v", concurrency, err)
		}
		if got := cfg.withDefaults(h).Prefetch; got != want {
			t.Errorf("Concurrency %d: Prefetch %d, want %d", concurrency, got, want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{time.Second, 5 * time.Second, time.Minute}
	for wait, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, time.Second: time.Second, 4999 * time.Millisecond: time.Second,
		5 * time.Second: 5 * time.Second, 59 * time.Second: 5 * time.Second, time.Hour: time.Minute,
	} {
		if got := retryDelay(delays, wait); got != want {
			t.Errorf("a wait of %v: %v, want %v", wait, got, want)
		}
	}
}
