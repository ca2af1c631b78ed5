package outbox

import (
	"sync"
	"time"
)

// RelayHealth is how a relay is, for a liveness or readiness probe.
type RelayHealth struct {
	// Runs is how many calls of Run have not returned.
	Runs int

	// Seen is when the loop of a run last came round; with several runs, the one that has
	// been silent longest. A loop comes round at least every PollInterval when nothing is
	// due, and otherwise within what a claim, a publish and a pause may take: far below
	// Lease plus PublishTimeout. Zero without a run.
	Seen time.Time

	// OutageSince is since when the broker has answered nothing; zero when it does, as
	// far as is known. A relay in an outage is alive: it probes the broker by itself.
	OutageSince time.Time
}

// Health tells how the relay is now. It asks neither the database nor the broker.
func (r *Relay) Health() RelayHealth { return r.pulses.health() }

// pulse is the life sign of one run.
type pulse struct {
	mu          sync.Mutex
	seen        time.Time
	outageSince time.Time
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = time.Now()
}

func (p *pulse) paused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outageSince.IsZero() {
		p.outageSince = time.Now()
	}
}

func (p *pulse) resumed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outageSince = time.Time{}
}

func (p *pulse) read() (seen, outageSince time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, p.outageSince
}

// pulses are those of a relay's runs.
type pulses struct {
	mu  sync.Mutex
	all map[*pulse]struct{}
}

func (p *pulses) add(of *pulse) {
	of.beat()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[*pulse]struct{})
	}
	p.all[of] = struct{}{}
}

func (p *pulses) remove(of *pulse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, of)
}

func (p *pulses) health() RelayHealth {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := RelayHealth{Runs: len(p.all)}
	for of := range p.all {
		seen, since := of.read()
		if h.Seen.IsZero() || seen.Before(h.Seen) {
			h.Seen = seen
		}
		if !since.IsZero() && (h.OutageSince.IsZero() || since.Before(h.OutageSince)) {
			h.OutageSince = since
		}
	}
	return h
}
