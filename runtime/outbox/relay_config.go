package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// RelayConfig has a relay's settings. Each zero value stands for its default.
type RelayConfig struct {
	// BatchSize is the most events that one claim leases. Defaults to 500.
	BatchSize int

	// BatchBytes is about how many bytes of payload one claim reads. Defaults to 8 MiB.
	BatchBytes int

	// MaxBatches is how many batches may be in flight, claimed and not yet settled:
	// so many calls of the publisher may be under way at once, so many batches are
	// in memory, and the database's pool should have two connections more. Defaults to 4.
	MaxBatches int

	// Lease is how long a claimed event belongs to this relay, by the database's
	// clock. When the relay dies, its events wait so long. It must be at least
	// PublishTimeout plus twice LeaseMargin: one margin for what the claim takes, one
	// for the mark, for no publish is begun that could outlast its lease. Leases of
	// which less than half is left are renewed while the relay works on their
	// events. Defaults to 30 s.
	Lease time.Duration

	// PublishTimeout bounds one call of the publisher, for a whole batch.
	// Defaults to 10 s.
	PublishTimeout time.Duration

	// LeaseMargin is kept between the end of a publish and the end of the lease,
	// for the mark. Defaults to a tenth of Lease.
	LeaseMargin time.Duration

	// PollInterval is the longest wait between two looks at an idle outbox. After
	// work, and after a wake (see [Waker]), which ends the wait at once, it begins at
	// a hundredth of it and doubles. Defaults to 500 ms.
	PollInterval time.Duration

	// MaxAttempts is after how many failed attempts an event is dead. Only
	// failures of the event itself count, never an outage. Defaults to 10.
	MaxAttempts int

	// RetryBackoff is the wait after the first failed attempt; it doubles with
	// each, up to RetryBackoffMax. A random part of up to a half is taken off.
	// Default to 1 s and 5 min.
	RetryBackoff    time.Duration
	RetryBackoffMax time.Duration

	// OutageBackoff is the pause after the broker, or the database, was found
	// unavailable; it doubles with each time, up to OutageBackoffMax, and a random
	// part of up to a half is taken off. An event that found the broker unavailable
	// waits OutageBackoffMax, so that others are tried before it. Default to
	// 200 ms and 5 s.
	OutageBackoff    time.Duration
	OutageBackoffMax time.Duration

	// Logger gets what a person should know, without payloads: a trouble when it
	// begins, every ten minutes while it lasts, and when it is over. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Observer is told of everything as it happens. Defaults to none.
	Observer *Observer

	// BacklogInterval is how often Observer.Backlog is told what waits, which is a
	// query each time, bounded by BacklogInterval too. Without that function nothing
	// is asked. Defaults to 15 s.
	BacklogInterval time.Duration
}

func (c *RelayConfig) withDefaults() RelayConfig {
	var out RelayConfig
	if c != nil {
		out = *c
	}
	setDefault(&out.BatchSize, 500)
	setDefault(&out.BatchBytes, 8<<20)
	setDefault(&out.MaxBatches, 4)
	setDefault(&out.Lease, 30*time.Second)
	setDefault(&out.PublishTimeout, 10*time.Second)
	setDefault(&out.LeaseMargin, out.Lease/10)
	setDefault(&out.PollInterval, 500*time.Millisecond)
	setDefault(&out.MaxAttempts, 10)
	setDefault(&out.RetryBackoff, time.Second)
	setDefault(&out.RetryBackoffMax, max(out.RetryBackoff, 5*time.Minute))
	setDefault(&out.OutageBackoff, 200*time.Millisecond)
	setDefault(&out.OutageBackoffMax, max(out.OutageBackoff, 5*time.Second))
	setDefault(&out.BacklogInterval, 15*time.Second)
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	return out
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxBatchSize keeps the statements of a batch, with a placeholder for each
// event, far below the servers' limit of 65,535.
const maxBatchSize = 5000

func (c *RelayConfig) validate() error {
	var problems []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"BatchSize", int64(c.BatchSize)},
		{"BatchBytes", int64(c.BatchBytes)},
		{"MaxBatches", int64(c.MaxBatches)},
		{"Lease", int64(c.Lease)},
		{"PublishTimeout", int64(c.PublishTimeout)},
		{"LeaseMargin", int64(c.LeaseMargin)},
		{"PollInterval", int64(c.PollInterval)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"RetryBackoff", int64(c.RetryBackoff)},
		{"RetryBackoffMax", int64(c.RetryBackoffMax)},
		{"OutageBackoff", int64(c.OutageBackoff)},
		{"OutageBackoffMax", int64(c.OutageBackoffMax)},
		{"BacklogInterval", int64(c.BacklogInterval)},
	} {
		if f.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", f.name))
		}
	}
	if c.BatchSize > maxBatchSize {
		problems = append(problems, fmt.Errorf("BatchSize is %d, at most %d", c.BatchSize, maxBatchSize))
	}
	// Sums could overflow.
	if c.LeaseMargin > c.Lease/2 || c.PublishTimeout > c.Lease-2*c.LeaseMargin {
		problems = append(problems, fmt.Errorf(
			"the lease of %v is shorter than PublishTimeout (%v) plus twice LeaseMargin (%v), once for the claim and once for the mark: "+
				"a publish could outlast it, so none would be begun",
			c.Lease, c.PublishTimeout, c.LeaseMargin))
	}
	if len(problems) > 0 {
		return fmt.Errorf("relay config: %w", errors.Join(problems...))
	}
	return nil
}
