// Command bench measures an outbox: how fast relays drain it, beside bare loops of
// the same statements, how long an event takes from its commit to the broker's
// confirm, and what makes it slower. docs/performance.md says how to read it.
//
// The servers come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; `make
// bench` starts private ones. What it makes there it drops at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// settings are the flags.
type settings struct {
	only       string
	dbs        string
	events     int
	rounds     int
	batch      int
	maxBatches int
	idle       int
	retained   int
	lasts      time.Duration
	full       bool
	statements bool
	json       string
	cpuprofile string
	match      string
}

// section is a part of the run that can be asked for.
type section struct {
	name string
	run  func(*bench, context.Context) error
}

var sections = []section{
	{"drain", (*bench).drain},
	{"peer", (*bench).peer},
	{"latency", (*bench).latency},
	{"claim", (*bench).claim},
	{"hot", (*bench).hot},
	{"matrix", (*bench).matrix},
}

func main() {
	s := settings{}
	var names []string
	for _, section := range sections {
		names = append(names, section.name)
	}
	flag.StringVar(&s.only, "only", strings.Join(names, ","), "the `sections` to run")
	flag.StringVar(&s.dbs, "db", "mysql,mariadb", "the databases to run them on")
	flag.IntVar(&s.events, "events", 50_000, "events that a drain begins with")
	flag.IntVar(&s.rounds, "rounds", 2, "how often each side of a comparison is measured, in turn; the middle counts")
	flag.IntVar(&s.retained, "retained", 1_000_000, "published rows of a table that isn't empty; it has a tenth as many dead ones")
	flag.DurationVar(&s.lasts, "lasts", 15*time.Second, "how long a load lasts in the latency section; half of it in the general table")
	flag.BoolVar(&s.full, "full", false, "the whole general table: every combination, not only what differs from the first case in one thing")
	flag.IntVar(&s.batch, "batch", 500, "events a claim")
	flag.IntVar(&s.maxBatches, "batches", 0, "batches in flight; 0 for the relay's default")
	flag.IntVar(&s.idle, "idle", 0, "idle connections that a relay's pool keeps; 0 for the default of database/sql")
	flag.StringVar(&s.match, "case", "", "run only the sides that match this `pattern`, for a closer look; what is compared with others is not checked")
	flag.BoolVar(&s.statements, "statements", false, "print how often each statement ran and how long it took")
	flag.StringVar(&s.json, "json", "", "write the results to this `file` too")
	flag.StringVar(&s.cpuprofile, "cpuprofile", "", "write a CPU profile to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := profiled(s.cpuprofile, func() error { return run(ctx, s) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	for _, name := range strings.Split(s.only, ",") {
		if !slices.ContainsFunc(sections, func(x section) bool { return x.name == name }) {
			return fmt.Errorf("-only: there is no section %q", name)
		}
	}
	r := newReport(s)
	var benches []*bench
	for _, name := range strings.Split(s.dbs, ",") {
		flavor := dbserver.Flavor(name)
		if !slices.Contains(dbserver.Flavors(), flavor) {
			return fmt.Errorf("-db: there is no database %q", name)
		}
		b, err := newBench(ctx, s, flavor, r)
		if err != nil {
			return err
		}
		benches = append(benches, b)
	}
	err := runSections(ctx, s, benches)
	r.print(os.Stdout)
	if s.json != "" {
		err = errors.Join(err, r.write(s.json))
	}
	return errors.Join(err, r.failed())
}

func runSections(ctx context.Context, s settings, benches []*bench) error {
	for _, section := range sections {
		if !slices.Contains(strings.Split(s.only, ","), section.name) {
			continue
		}
		for _, b := range benches {
			start := time.Now()
			if err := section.run(b, ctx); err != nil {
				return fmt.Errorf("%s on %s: %w", section.name, b.flavor, err)
			}
			b.progress("%s took %v", section.name, time.Since(start).Round(time.Second))
		}
	}
	return nil
}

// bench measures on one database.
type bench struct {
	settings
	flavor dbserver.Flavor
	dsn    string
	report *report
	out    io.Writer

	process int // the server's, when it is ours to look at
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.out, "%-8s %s\n", b.flavor, fmt.Sprintf(format, args...))
}
