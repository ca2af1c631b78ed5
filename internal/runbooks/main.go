// Runbooks carries out docs/operations.md: it injects each fault of that page on a real
// database and a real broker, runs the page's commands through the built binary, and looks
// at what is left:
//
//	go run ./internal/runbooks [-db mysql|mariadb] [-broker nats|rabbitmq] [-run REGEXP]
//
// It prints every command with its answer, so that the page can be held against it. It exits
// with 0 when every runbook ended as it should, with 1 when one didn't, and with 2 when it
// could not begin.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// runbookTimeout bounds one of them.
const runbookTimeout = 5 * time.Minute

// options are the command line's.
type options struct {
	flavor dbserver.Flavor
	broker string
	run    *regexp.Regexp
	bin    string // a folder with the programs; they are built when it is empty
	old    string // a commit
}

func main() {
	if text := os.Getenv(natsEnv); text != "" {
		os.Exit(runNATS(text))
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	opts, err := parse(args)
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "outboxgen-runbooks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer os.RemoveAll(dir)
	w := &world{opts: opts, dir: dir, bin: opts.bin}
	defer w.close()
	if err := w.setUp(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runbooks:", err)
		return 2
	}
	failed := 0
	for _, r := range runbooks {
		if !opts.run.MatchString(r.name) || r.broker != "" && r.broker != opts.broker {
			continue
		}
		fmt.Printf("\n=== %s (%v, %s)\n", r.name, opts.flavor, opts.broker)
		begin := time.Now()
		if err := w.carryOut(ctx, r); err != nil {
			failed++
			fmt.Printf("--- FAILED %s after %.0f s: %v\n", r.name, time.Since(begin).Seconds(), err)
			continue
		}
		fmt.Printf("--- passed %s in %.0f s\n", r.name, time.Since(begin).Seconds())
	}
	switch {
	case ctx.Err() != nil:
		return 2
	case failed > 0:
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("runbooks", flag.ContinueOnError)
	var opts options
	db := flags.String("db", string(dbserver.MySQL), "the `database` to start, mysql or mariadb")
	flags.StringVar(&opts.broker, "broker", "nats", "the `broker` to start, nats or rabbitmq")
	pattern := flags.String("run", ".", "the runbooks whose names this `regexp` matches")
	flags.StringVar(&opts.bin, "bin", "", "a `folder` with outboxgen, api, relay, consumers and setup, in place of building them")
	flags.StringVar(&opts.old, "old", "", "the `commit` of the older build; by default the last one without internal/ops")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.flavor = dbserver.Flavor(*db)
	var err error
	switch opts.run, err = regexp.Compile(*pattern); {
	case err != nil:
	case opts.flavor != dbserver.MySQL && opts.flavor != dbserver.MariaDB:
		err = errors.New("-db is mysql or mariadb")
	case opts.broker != "nats" && opts.broker != "rabbitmq":
		err = errors.New("-broker is nats or rabbitmq")
	}
	if err == nil && opts.bin != "" {
		opts.bin, err = filepath.Abs(opts.bin)
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), "runbooks:", err)
	}
	return opts, err
}
