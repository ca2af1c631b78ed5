// Withservers runs a command with a MySQL and a MariaDB server at hand:
//
//	go run ./internal/dbserver/cmd/withservers [-mysql] [-mariadb] -- command [argument …]
//
// The command finds the servers' DSNs in OUTBOXGEN_MYSQL_DSN and
// OUTBOXGEN_MARIADB_DSN. A variable that is already set is left alone, and
// that server used. With a flag, only that flavor is seen to. The servers stop
// with the command, whose exit code becomes this program's (which `go run`, in
// turn, reports as 1). 2 means that the command could not be run.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("withservers", flag.ContinueOnError)
	only := map[dbserver.Flavor]*bool{}
	for _, f := range dbserver.Flavors() {
		only[f] = flags.Bool(string(f), false, fmt.Sprintf("provide %v only (with more such flags: those only)", f))
	}
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: withservers [-mysql] [-mariadb] -- command [argument …]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return 2
	}
	if _, err := exec.LookPath(flags.Arg(0)); err != nil {
		fmt.Fprintf(os.Stderr, "withservers: %v\n", err) // before servers start for it
		return 2
	}
	var flavors []dbserver.Flavor
	for _, f := range dbserver.Flavors() {
		if *only[f] {
			flavors = append(flavors, f)
		}
	}
	if len(flavors) == 0 {
		flavors = dbserver.Flavors()
	}

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go watchParent(signals, os.Getppid())

	out := &lines{w: os.Stderr}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	servers, code := startAll(ctx, cancel, signals, flavors, out)
	if code == 0 {
		code = runCommand(flags.Args(), signals, out)
	}
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if !s.Running() {
				out.printf("%v ended before the command did; end of its error log:\n%s", s.Flavor, s.ErrorLog())
			}
			if err := s.Stop(); err != nil {
				out.printf("stop %v: %v", s.Flavor, err)
			}
		})
	}
	wg.Wait()
	return code
}

// startAll provides all flavors in parallel and puts their DSNs into the
// environment. What it returns must be stopped even when the code is not 0.
func startAll(ctx context.Context, cancel func(), signals <-chan os.Signal, flavors []dbserver.Flavor, out *lines) ([]*dbserver.Server, int) {
	servers, errs := make([]*dbserver.Server, len(flavors)), make([]error, len(flavors))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i, f := range flavors {
			wg.Go(func() { servers[i], errs[i] = provide(ctx, f, out) })
		}
		wg.Wait()
	}()
	code := 0
	select {
	case <-done:
	case sig := <-signals:
		cancel()
		<-done
		code = 128 + int(sig.(syscall.Signal))
	}
	var running []*dbserver.Server
	for i, f := range flavors {
		if errs[i] != nil && code == 0 {
			out.printf("%v", errs[i])
		}
		if s := servers[i]; s != nil {
			running = append(running, s)
			errs[i] = os.Setenv(f.EnvVar(), s.DSN(""))
		}
	}
	if code == 0 && errors.Join(errs...) != nil {
		code = 2
	}
	return running, code
}

// provide starts a server, or checks the one that the environment names.
func provide(ctx context.Context, f dbserver.Flavor, out *lines) (*dbserver.Server, error) {
	if dsn := os.Getenv(f.EnvVar()); dsn != "" {
		version, err := ping(ctx, dsn)
		if err != nil {
			return nil, fmt.Errorf("%v: the server that %s names cannot be used: %w", f, f.EnvVar(), err)
		}
		out.printf("%v %s, from %s", f, version, f.EnvVar())
		return nil, nil
	}
	cache, err := dbserver.CacheDir()
	if err != nil {
		return nil, err
	}
	bin, err := dbserver.Install(ctx, f, cache, func(line string) { out.printf("%s", line) })
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	s, err := dbserver.Start(ctx, f, dbserver.Options{Binary: bin, CacheDir: cache})
	if err != nil {
		return nil, err
	}
	out.printf("%v %s on %s after %.1fs (%s: %s)", f, bin.Version, s.Addr(), time.Since(begin).Seconds(), bin.Where, bin.Path)
	return s, nil
}

func ping(ctx context.Context, dsn string) (version string, err error) {
	if _, err := mysql.ParseDSN(dsn); err != nil {
		return "", errors.New("its value is no go-sql-driver DSN, such as user:password@tcp(127.0.0.1:3306)/")
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return version, err
}

// lines writes whole lines from several goroutines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "withservers: "+format+"\n", args...)
}
