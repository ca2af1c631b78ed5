// Command bench measures an outbox: how fast relays drain it, beside bare loops of
// the same statements, how long an event takes from its commit to the broker's
// confirm, and what makes either slower. docs/performance.md says how to read it.
//
// The servers come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; `make
// bench` starts private ones. What it makes there it drops at the end. It exits
// with 1 when a checked ratio isn't reached.
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
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// section is a part of the run that can be asked for.
type section struct {
	name string
	run  func(*bench, context.Context) error
}

func sections() []section {
	return []section{
		{"drain", (*bench).drain},
		{"peer", (*bench).peer},
		{"latency", (*bench).latency},
		{"e2e", (*bench).endToEnd},
		{"claim", (*bench).claim},
		{"hot", (*bench).hot},
		{"matrix", (*bench).matrix},
	}
}

func sectionNames() (names []string) {
	for _, section := range sections() {
		names = append(names, section.name)
	}
	return names
}

func main() {
	s, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = profiled(s.cpuprofile, func() error { return run(ctx, s) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	r := newReport(s)
	var benches []*bench
	for _, flavor := range s.flavors {
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
	if s.markdown != "" {
		err = errors.Join(err, os.WriteFile(s.markdown, []byte(r.markdown()), 0o644))
	}
	if failed := r.failed(); !s.short {
		err = errors.Join(err, failed)
	}
	return err
}

func runSections(ctx context.Context, s settings, benches []*bench) error {
	for _, section := range sections() {
		if !slices.Contains(s.sections, section.name) {
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

// wanted reports whether a side matches -case.
func (b *bench) wanted(name string) bool { return b.match.MatchString(name) }
