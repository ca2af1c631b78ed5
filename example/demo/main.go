// Demo tells the whole story on a real database and a real broker:
//
//	go run ./example/demo [-db mysql|mariadb] [-orders 3000] [-keep]
//
// It starts a throwaway database server and a NATS server, builds the example's
// api, relay and consumers and runs them as processes of their own. Clients order
// over HTTP while a relay is killed between the broker's confirm and the mark, and
// a consumer between its commit and its acknowledgement. At the end what is in the
// database and in the stream is compared with what the clients were told. It exits
// with 0 when every line says PASS, with 1 when one says FAIL, and with 2 when the
// story could not be told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// storyTimeout bounds everything after the set-up. With 3,000 orders it takes
// less than a minute.
func storyTimeout(orders int) time.Duration {
	return 2*time.Minute + time.Duration(orders)*40*time.Millisecond
}

// options are the command line's.
type options struct {
	flavor  dbserver.Flavor
	insist  bool // on the flavor: it was asked for
	broker  string
	orders  int
	dsn     string
	keep    bool
	workDir string // of logs and binaries
}

// programs is the folder of the example's binaries.
func (o options) programs() string { return filepath.Join(o.workDir, "bin") }

func main() {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(runVictim(role))
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) (code int) {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchParent(cancel, os.Getppid())

	out := newPrinter(os.Stdout)
	if opts.workDir, err = os.MkdirTemp("", "outboxgen-demo-"); err != nil {
		out.say("%v", err)
		return 2
	}
	keepLogs := true
	defer func() {
		// All of it is below the system's own temporary folder: what can't be
		// removed is no harm.
		logs, _ := filepath.Glob(filepath.Join(opts.workDir, "*.log"))
		if !keepLogs || len(logs) == 0 {
			_ = os.RemoveAll(opts.workDir)
			return
		}
		_ = os.RemoveAll(opts.programs())
		out.say("the processes' logs are in %s", opts.workDir)
	}()

	passed, err := perform(ctx, opts, out)
	keepLogs = opts.keep || !passed && ctx.Err() == nil
	switch {
	case err != nil && ctx.Err() != nil:
		out.say("stopped: %v", context.Cause(ctx))
		return 2
	case err != nil:
		out.say("%v", err)
		return 2
	case !passed:
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	var opts options
	db := flags.String("db", string(dbserver.MySQL), "the `database` to start, mysql or mariadb")
	flags.StringVar(&opts.broker, "broker", "nats", "the `broker` to start: "+strings.Join(brokerNames(), ", "))
	flags.IntVar(&opts.orders, "orders", 3000, "how many orders the clients ask for, at least 500")
	flags.StringVar(&opts.dsn, "dsn", "", "go-sql-driver `DSN` of a server of your own, on which a database is created and dropped")
	flags.BoolVar(&opts.keep, "keep", false, "at the end leave the servers running, to look around, until Ctrl-C")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	complain := func(text string) (options, error) {
		fmt.Fprintln(flags.Output(), "demo:", text)
		return opts, errors.New(text)
	}
	opts.flavor = dbserver.Flavor(*db)
	flags.Visit(func(f *flag.Flag) { opts.insist = opts.insist || f.Name == "db" })
	switch {
	case flags.NArg() > 0:
		return complain(fmt.Sprintf("unexpected argument %q", flags.Arg(0)))
	case opts.flavor != dbserver.MySQL && opts.flavor != dbserver.MariaDB:
		return complain("-db is mysql or mariadb")
	case brokerServers[opts.broker] == nil:
		return complain("-broker is one of " + strings.Join(brokerNames(), ", "))
	case opts.orders < 500:
		return complain("-orders is at least 500: with fewer the two victims may not get far enough to be killed")
	}
	return opts, nil
}

// perform sets up, tells the story and judges it. What it started ends with it.
func perform(ctx context.Context, opts options, out *printer) (passed bool, err error) {
	out.step("Set-up")
	s, err := setUp(ctx, opts, out)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return false, err
	}
	// A child's unexpected end ends this context, with what it logged last.
	storyCtx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	bound := storyTimeout(opts.orders)
	storyCtx, cancel := context.WithTimeoutCause(storyCtx, bound, fmt.Errorf("the story did not end within %v", bound))
	defer cancel()
	processes := newProcesses(opts.workDir, fail)
	defer processes.killAll()

	facts, err := tell(storyCtx, opts, s, processes, out)
	if err != nil {
		if cause := context.Cause(storyCtx); cause != nil {
			err = cause
		}
		return false, err
	}
	out.step("The figures")
	printTable(out, facts)
	out.step("The promise")
	verdicts := judge(facts)
	passed = printVerdicts(out, verdicts)
	result := "FAILED"
	if passed {
		result = fmt.Sprintf("all %d passed", len(verdicts))
	}
	out.say("\n%s; the story took %.0f s", result, out.sinceStory())
	if opts.keep {
		out.say("\nLook around until Ctrl-C:\n  %s\n  %s", s.hint(), s.broker.describe())
		<-ctx.Done()
	}
	return passed, nil
}

// watchParent ends the demo with its parent: `go run`, when it is ended, takes
// nobody with it.
func watchParent(cancel context.CancelCauseFunc, parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	cancel(errors.New("the process that started the demo has ended"))
}
