package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

func newBench(ctx context.Context, s settings, flavor dbserver.Flavor, r *report) (*bench, error) {
	b := &bench{settings: s, flavor: flavor, report: r, out: os.Stdout}
	dsn := os.Getenv(flavor.EnvVar())
	if dsn == "" {
		return nil, fmt.Errorf("no %s server: run `make bench`, or set %s to a DSN", flavor, flavor.EnvVar())
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is not a DSN", flavor.EnvVar())
	}
	if name, value, ok := strings.Cut(s.session, "="); ok {
		if cfg.Params == nil {
			cfg.Params = map[string]string{}
		}
		cfg.Params[name] = value
	}
	b.dsn = cfg.FormatDSN()
	b.process = serverProcess(cfg.Addr)
	p, err := openPool(cfg, idleConns, nil)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	database, err := describe(ctx, p)
	r.Databases[string(flavor)] = database
	return b, err
}

// describe tells a server's version and the settings that what is measured depends on.
func describe(ctx context.Context, p *pool) (d database, err error) {
	if err := p.QueryRowContext(ctx, "SELECT @@version").Scan(&d.Version); err != nil {
		return d, err
	}
	d.Settings = map[string]string{}
	for _, name := range []string{
		"log_bin", "binlog_format", "binlog_row_image", "sync_binlog", "innodb_flush_log_at_trx_commit", "innodb_buffer_pool_size",
	} {
		var value string
		if err := p.QueryRowContext(ctx, "SELECT @@"+name).Scan(&value); err == nil { // else this server doesn't have it
			d.Settings[name] = value
		}
	}
	return d, nil
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
