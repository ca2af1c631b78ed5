package main

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// settings are the flags.
type settings struct {
	sections []string
	flavors  []dbserver.Flavor
	full     bool
	short    bool

	events   int
	rounds   int
	retained int
	lasts    time.Duration

	batch      int
	maxBatches int
	idle       int
	session    string

	match      *regexp.Regexp
	statements bool
	json       string
	markdown   string
	cpuprofile string
}

// parse reads the command line.
func parse(args []string) (settings, error) {
	var s settings
	var only, dbs, match string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&only, "only", "", "the `sections` to run, of "+strings.Join(sectionNames(), ",")+"; matrix, the general table, runs if it is named here or with -full")
	f.StringVar(&dbs, "db", "mysql,mariadb", "the `databases` to run them on")
	f.BoolVar(&s.full, "full", false, "run the general table too, with every combination instead of what differs from the first case in one thing")
	f.BoolVar(&s.short, "short", false, "a minute or two to see that it works: small numbers, and no check fails")
	f.IntVar(&s.events, "events", 50_000, "events that a drain begins with")
	f.IntVar(&s.rounds, "rounds", 2, "how often each side of a comparison is measured, in turn; the middle counts")
	f.IntVar(&s.retained, "retained", 1_000_000, "published rows of a table that isn't empty; it has a tenth as many dead ones")
	f.DurationVar(&s.lasts, "lasts", 10*time.Second, "how long a load lasts in the latency section; half of it in the general table")
	f.IntVar(&s.batch, "batch", 500, "events a claim")
	f.IntVar(&s.maxBatches, "batches", 0, "batches in flight; 0 for the relay's default")
	f.IntVar(&s.idle, "idle", idleConns, "idle connections that a relay's pool keeps")
	f.StringVar(&s.session, "session", "", "a `variable=value` that the connections of relays, loops and writers set, such as binlog_row_image=MINIMAL")
	f.StringVar(&match, "case", "", "run only the sides that match this `pattern`, for a closer look; what they would be compared with isn't checked")
	f.BoolVar(&s.statements, "statements", false, "print how often each statement ran and how long it took")
	f.StringVar(&s.json, "json", "", "write the results to this `file` too")
	f.StringVar(&s.markdown, "markdown", "", "write the tables to this `file` too, as docs/performance.md has them")
	f.StringVar(&s.cpuprofile, "cpuprofile", "", "write a CPU profile to this `file`")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.short {
		given := map[string]bool{}
		f.Visit(func(x *flag.Flag) { given[x.Name] = true })
		for name, value := range map[string]string{"events": "4000", "rounds": "1", "retained": "20000", "lasts": "2s"} {
			if !given[name] {
				_ = f.Set(name, value) // it is one of ours
			}
		}
	}
	return s, s.choose(only, dbs, match)
}

func (s *settings) choose(only, dbs, match string) (err error) {
	if s.match, err = regexp.Compile(match); err != nil {
		return fmt.Errorf("-case: %w", err)
	}
	s.sections = sectionNames()
	switch {
	case only != "":
		s.sections = strings.Split(only, ",")
	case !s.full:
		s.sections = slices.DeleteFunc(s.sections, func(name string) bool { return name == "matrix" })
	}
	for _, name := range s.sections {
		if !slices.Contains(sectionNames(), name) {
			return fmt.Errorf("-only: there is no section %q", name)
		}
	}
	for name := range strings.SplitSeq(dbs, ",") {
		flavor := dbserver.Flavor(name)
		if !slices.Contains(dbserver.Flavors(), flavor) {
			return fmt.Errorf("-db: there is no database %q", name)
		}
		s.flavors = append(s.flavors, flavor)
	}
	if s.events < 1000 || s.rounds < 1 || s.retained < 1000 || s.lasts < time.Second || s.batch < 1 {
		return fmt.Errorf("at least 1000 -events, 1 of -rounds, 1000 -retained, 1s of -lasts and 1 of -batch")
	}
	if most := numbers * perNumber; deep*s.events > most || s.retained > most {
		return fmt.Errorf("at most %d -events and %d -retained", most/deep, most)
	}
	return nil
}
