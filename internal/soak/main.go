// Command soak runs writers and relays for millions of events and watches what
// must stay flat: the memory of the process, its goroutines, its connections.
//
// The servers come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; `make
// soak` starts private ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

type settings struct {
	events int
	relays int
	batch  int
	ahead  int
	limit  time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.events, "events", 5_000_000, "events to write and publish")
	flag.IntVar(&s.relays, "relays", 2, "relays")
	flag.IntVar(&s.batch, "batch", 500, "events a claim")
	flag.IntVar(&s.ahead, "ahead", 50_000, "events that the writers may be ahead of the relays")
	flag.DurationVar(&s.limit, "limit", 45*time.Minute, "how long it may take for a database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var problems []error
	for _, flavor := range dbserver.Flavors() {
		dsn := os.Getenv(flavor.EnvVar())
		if dsn == "" {
			fmt.Printf("%s: left out, %s is not set\n", flavor, flavor.EnvVar())
			continue
		}
		fmt.Printf("%s: %d events, %d relays\n", flavor, s.events, s.relays)
		if err := soak(ctx, dsn, s); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", flavor, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
