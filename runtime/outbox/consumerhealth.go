package outbox

import (
	"sync"
	"time"
)

// ConsumerHealth is how a consumer is, for a liveness or readiness probe.
type ConsumerHealth struct {
	// Handling is how many events are being handled or redriven now.
	Handling int

	// Oldest is when the longest running of them began; zero when there is none. Each has
	// ConsumerConfig.Timeout for its transaction, and the database's connection its
	// readTimeout: one that runs much longer has a handler that doesn't look at its context.
	Oldest time.Time

	// UnavailableSince is since when every event that was tried found the database away;
	// zero when the last one did not. Consumers wait that out by themselves.
	UnavailableSince time.Time
}

// Health tells how the consumer is now. It asks no database.
func (c *Consumer) Health() ConsumerHealth { return c.pulse.health() }

// consumerPulse knows the calls that run.
type consumerPulse struct {
	mu          sync.Mutex
	running     map[*observed]struct{}
	unavailable time.Time
}

func (p *consumerPulse) begin(o *observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running = make(map[*observed]struct{})
	}
	p.running[o] = struct{}{}
}

func (p *consumerPulse) end(o *observed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, o)
	switch {
	case err == nil || handlingKind(err) != FailureUnavailable:
		p.unavailable = time.Time{}
	case p.unavailable.IsZero():
		p.unavailable = time.Now()
	}
}

func (p *consumerPulse) health() ConsumerHealth {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := ConsumerHealth{Handling: len(p.running), UnavailableSince: p.unavailable}
	for o := range p.running {
		if h.Oldest.IsZero() || o.began.Before(h.Oldest) {
			h.Oldest = o.began
		}
	}
	return h
}
