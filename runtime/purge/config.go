package purge

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config has a purger's settings. Each zero value stands for its default.
type Config struct {
	// Interval is the wait after a pass. A pass goes on for as long as it finds
	// full batches, so that it bounds how late rows are deleted, not how many.
	// Defaults to 1 min.
	Interval time.Duration

	// BatchSize is the most rows that one statement reads and one transaction
	// deletes. With lanes, up to four transactions are under way at once. Defaults to
	// 500, is at most 5000.
	BatchSize int

	// Pause is the wait after each batch, for a server that should have more time
	// for others. Defaults to none.
	Pause time.Duration

	// Hold is how long, by the database's clock, the elected purger stays elected
	// without a sign of life. When it dies, another one takes over so much later.
	// It must be at least twice Interval and Pause. Defaults to three times the
	// longer of them, at least 1 min.
	Hold time.Duration

	// Logger gets what a person should know, without values of rows. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Observer is called after each pass that this purger was elected for, and with
	// the error of one that failed; nil is not called. The purger waits for it.
	Observer func(Pass, error)
}

const (
	maxBatchSize = 5000 // keeps a statement far below the servers' limit of 65,535 placeholders
	minHold      = time.Minute
)

func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	if out.Interval == 0 {
		out.Interval = time.Minute
	}
	if out.BatchSize == 0 {
		out.BatchSize = 500
	}
	if out.Hold == 0 {
		out.Hold = max(minHold, 3*max(out.Interval, out.Pause))
	}
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	return out
}

func (c *Config) validate() error {
	var problems []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Interval", int64(c.Interval)},
		{"BatchSize", int64(c.BatchSize)},
		{"Pause", int64(c.Pause)},
		{"Hold", int64(c.Hold)},
	} {
		if f.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", f.name))
		}
	}
	if c.BatchSize > maxBatchSize {
		problems = append(problems, fmt.Errorf("BatchSize is %d, at most %d", c.BatchSize, maxBatchSize))
	}
	if c.Hold/2 < max(c.Interval, c.Pause) {
		problems = append(problems, fmt.Errorf(
			"the hold of %v is shorter than twice Interval (%v) or Pause (%v): it would end while the purger waits",
			c.Hold, c.Interval, c.Pause))
	}
	if len(problems) > 0 {
		return fmt.Errorf("purge config: %w", errors.Join(problems...))
	}
	return nil
}

// micros rounds up: what is kept is never kept for less than was asked for.
func micros(d time.Duration) int64 {
	return int64((d-1)/time.Microsecond) + 1
}
