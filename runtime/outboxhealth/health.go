// Package outboxhealth answers liveness and readiness probes of a process that runs a
// relay, consumers, or a service that writes events.
//
// Alive is a process whose loops come round: restart one that is not. Ready is one that
// can do its work now. A relay that waits for its broker, and a consumer that waits for
// its database, are alive and not ready: they go on by themselves, and killing them helps
// nobody.
package outboxhealth

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The defaults.
const (
	defaultSilence = 2 * time.Minute
	defaultOutage  = time.Minute
	defaultTimeout = 2 * time.Second
)

// Config says what to look at. Each may be left out.
type Config struct {
	// Relays that this process runs. One whose Run is not called, or has returned, is
	// not alive.
	Relays []*outbox.Relay

	// Consumers that this process runs. Whether their subscriptions go on is known of
	// those that are run by [Health.Run].
	Consumers []*outbox.Consumer

	// Database is called for readiness, such as the DB's PingContext. Its error is not
	// shown: it may name hosts and users.
	Database func(ctx context.Context) error

	// Silence is for how long a relay's loop, or a running handler, may give no sign of
	// life. It has to be above the relay's Lease plus PublishTimeout, its PollInterval, and
	// the longest handler's timeout plus the readTimeout of its database. Defaults to 2 min.
	Silence time.Duration

	// Outage is for how long a relay may have no answer from its broker, and a consumer none
	// from its database, before the process isn't ready. Defaults to 1 min.
	Outage time.Duration

	// Timeout bounds the question to the database. Defaults to 2 s.
	Timeout time.Duration
}

// Health answers probes. Make one with [New].
type Health struct {
	cfg Config

	asking atomic.Bool // the database

	mu   sync.Mutex
	runs map[string]bool // by name: whether it goes on
}

// New returns the health of what cfg names.
func New(cfg Config) *Health {
	for field, value := range map[*time.Duration]time.Duration{
		&cfg.Silence: defaultSilence, &cfg.Outage: defaultOutage, &cfg.Timeout: defaultTimeout,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return &Health{cfg: cfg, runs: make(map[string]bool)}
}

// Run calls run, such as a broker's Subscribe, and returns its error. Before its call
// nothing is asked of it; once it has returned the process is not alive any more.
func (h *Health) Run(name string, run func() error) error {
	h.set(name, true)
	defer h.set(name, false)
	return run()
}

func (h *Health) set(name string, goesOn bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[name] = goesOn
}

// State is how one part is. Reason is empty when it is well.
type State struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // stopped, silent, stuck, broker or database
	For    string `json:"for,omitempty"`    // how long it has been so
}

// Live returns the state of each loop.
func (h *Health) Live() []State {
	var states []State
	for _, r := range h.cfg.Relays {
		states = append(states, h.relayLives(r.Health()))
	}
	for _, c := range h.cfg.Consumers {
		s := State{Name: "consumer " + c.Name(), OK: true}
		if oldest := c.Health().Oldest; !oldest.IsZero() && h.since(oldest) > h.cfg.Silence {
			s = h.failing(s.Name, "stuck", oldest)
		}
		states = append(states, s)
	}
	return append(states, h.runsLive()...)
}

func (h *Health) relayLives(relay outbox.RelayHealth) State {
	switch {
	case relay.Runs == 0:
		return State{Name: "relay", Reason: "stopped"}
	case h.since(relay.Seen) > h.cfg.Silence:
		return h.failing("relay", "silent", relay.Seen)
	default:
		return State{Name: "relay", OK: true}
	}
}

// Ready returns the state of what the process works with.
func (h *Health) Ready(ctx context.Context) []State {
	var states []State
	if h.cfg.Database != nil {
		states = append(states, h.database(ctx))
	}
	for _, r := range h.cfg.Relays {
		s := State{Name: "relay", OK: true}
		switch relay := r.Health(); {
		case relay.Runs == 0:
			s = State{Name: "relay", Reason: "stopped"}
		case !relay.OutageSince.IsZero() && h.since(relay.OutageSince) > h.cfg.Outage:
			s = h.failing("relay", "broker", relay.OutageSince)
		}
		states = append(states, s)
	}
	for _, c := range h.cfg.Consumers {
		s := State{Name: "consumer " + c.Name(), OK: true}
		if since := c.Health().UnavailableSince; !since.IsZero() && h.since(since) > h.cfg.Outage {
			s = h.failing(s.Name, "database", since)
		}
		states = append(states, s)
	}
	return append(states, h.runsLive()...)
}

// database asks no second time while a question hangs: some drivers don't return when ctx
// ends. It survives a panic: a probe must be answered.
func (h *Health) database(ctx context.Context) State {
	failing := State{Name: "database", Reason: "database"}
	if !h.asking.CompareAndSwap(false, true) {
		return failing
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	answered := make(chan bool, 1)
	go func() {
		ok := false
		defer func() {
			_ = recover()
			h.asking.Store(false)
			answered <- ok
		}()
		ok = h.cfg.Database(ctx) == nil
	}()
	select {
	case ok := <-answered:
		if ok {
			return State{Name: "database", OK: true}
		}
	case <-ctx.Done():
	}
	return failing
}

func (h *Health) since(t time.Time) time.Duration { return time.Since(t) }

func (h *Health) failing(name, reason string, since time.Time) State {
	return State{Name: name, Reason: reason, For: h.since(since).Round(time.Second).String()}
}
