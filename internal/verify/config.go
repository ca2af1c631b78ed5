package verify

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// Config has the settings of a run.
type Config struct {
	// Only are points, points with an outcome ("R7/kill") or ids of required injections, with
	// commas. Defaults to everything.
	Only string

	// Databases and Brokers that experiments run on. Default to all.
	Databases []dbserver.Flavor
	Brokers   []string

	// Seed is the first experiment's; the others count up from it. Defaults to 1.
	Seed uint64

	// Count is how often a cell is run. Defaults to 1.
	Count int

	// Sparse runs each point with each outcome on one database and one broker, in turns, instead of
	// on all of them. The required injections run on all.
	Sparse bool

	// Lanes is how many experiments run at a time. They wait most of the time. Defaults to six
	// for each processor.
	Lanes int

	// Dir gets the record, the coverage tables and the logs of failed experiments. Defaults
	// to "", none.
	Dir string

	// Command is how the run is started again, for the record.
	Command string

	// Out gets what a person wants to see. Defaults to os.Stderr.
	Out io.Writer
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Databases) == 0 {
		c.Databases = dbserver.Flavors()
	}
	if len(c.Brokers) == 0 {
		c.Brokers = Brokers()
	}
	for _, b := range c.Brokers {
		if !slices.Contains(Brokers(), b) {
			return c, fmt.Errorf("no such broker as %q", b)
		}
	}
	for _, f := range c.Databases {
		if !slices.Contains(dbserver.Flavors(), f) {
			return c, fmt.Errorf("no such database as %q", f)
		}
	}
	c.Seed = cmp.Or(c.Seed, 1)
	c.Count = cmp.Or(c.Count, 1)
	c.Lanes = cmp.Or(c.Lanes, 6*runtime.NumCPU())
	if c.Out == nil {
		c.Out = os.Stderr
	}
	return c, nil
}
