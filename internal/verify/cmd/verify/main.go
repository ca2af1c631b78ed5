// Verify runs writers, relays and consumers of the example against real databases and
// brokers, breaks them at chosen points and judges what became of the events; see
// docs/verification.md. It exits with 1 when something failed or showed nothing, and
// with 2 when it could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/verify"
)

func main() {
	if verify.RunChild() {
		return
	}
	os.Exit(run())
}

func run() int {
	var cfg verify.Config
	var databases, brokers string
	flag.BoolVar(&cfg.Sparse, "sparse", false, "run each point with each outcome on one database and one broker, in turns")
	flag.StringVar(&cfg.Only, "only", "", "points, points with an outcome (R7/kill) or ids of required injections, with commas; no record is written then")
	flag.StringVar(&databases, "db", "", "databases, with commas: mysql, mariadb (default both)")
	flag.StringVar(&brokers, "broker", "", "brokers, with commas: nats, rabbitmq, kafka (default all)")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "the first experiment's `seed`")
	flag.IntVar(&cfg.Count, "count", 1, "how often each cell is run")
	flag.IntVar(&cfg.Lanes, "lanes", 0, "how many experiments run at a time (default 6 a processor)")
	flag.StringVar(&cfg.Dir, "dir", "verification", "the `folder` for the record, the coverage and the logs of what failed")
	flag.Parse()
	for _, name := range split(databases) {
		cfg.Databases = append(cfg.Databases, dbserver.Flavor(name))
	}
	cfg.Brokers = split(brokers)
	cfg.Command = strings.Join(append([]string{"go run ./internal/verify/cmd/verify"}, os.Args[1:]...), " ")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := verify.Run(ctx, cfg)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, verify.ErrFailed):
		return 1
	default:
		fmt.Fprintln(os.Stderr, "verify:", err)
		return 2
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
