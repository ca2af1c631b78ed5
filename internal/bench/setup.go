package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

func newBench(ctx context.Context, s settings, flavor dbserver.Flavor, r *report) (*bench, error) {
	b := &bench{settings: s, flavor: flavor, dsn: os.Getenv(flavor.EnvVar()), report: r, out: os.Stdout}
	if b.dsn == "" {
		return nil, fmt.Errorf("no %s server: run `make bench`, or set %s to a DSN", flavor, flavor.EnvVar())
	}
	cfg, err := mysql.ParseDSN(b.dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is not a DSN", flavor.EnvVar())
	}
	b.process = serverProcess(cfg.Addr)
	p, err := openPool(cfg, idleConns, nil)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var version string
	err = p.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	r.Databases[string(flavor)] = version
	return b, err
}

// profiled runs fn, and writes a CPU profile of it to a file if one is named.
func profiled(file string, fn func() error) error {
	if file == "" {
		return fn()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return fn()
}
