package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/broker"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/throwaway"
)

const module = "github.com/outboxgen/outboxgen"

// world is what all runbooks share, and what is one runbook's.
type world struct {
	opts   options
	dir    string // of logs and builds
	bin    string
	oldBin string // once an older build was asked for
	server *dbserver.Server

	broker    brokerServer
	dsn       string
	db        *sql.DB
	name      string // of the database
	api       string // its URL
	processes map[string]*throwaway.Process
	lastOrder int
}

func (w *world) setUp(ctx context.Context) (err error) {
	if w.bin == "" {
		w.bin = filepath.Join(w.dir, "bin")
		if err := build(ctx, "", w.bin, "./cmd/outboxgen", "./example/cmd/..."); err != nil {
			return err
		}
	}
	w.server, err = dbserver.Start(ctx, w.opts.flavor, dbserver.Options{Progress: func(line string) { fmt.Println(line) }})
	return err
}

func build(ctx context.Context, from, to string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", to + "/"}, packages...)...)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

func (w *world) close() {
	if w.server != nil {
		_ = w.server.Stop() // its folder is swept by the next start
	}
}

// carryOut runs one runbook on a database and a broker of its own.
func (w *world) carryOut(ctx context.Context, r runbook) (err error) {
	ctx, cancel := context.WithTimeout(ctx, runbookTimeout)
	defer cancel()
	w.processes = map[string]*throwaway.Process{}
	w.lastOrder = 0
	defer func() {
		for _, p := range w.processes {
			p.Kill()
		}
		if w.broker != nil {
			w.broker.Close()
		}
		if w.db != nil {
			w.db.Close()
		}
		w.broker, w.db = nil, nil
	}()
	if w.broker, err = startBroker(ctx, w.opts.broker); err != nil {
		return err
	}
	if err := w.useDatabase("shop_" + strings.ToLower(rand.Text()[:6])); err != nil {
		return err
	}
	if !r.bare {
		if err := w.program(ctx, w.bin, "setup"); err != nil {
			return err
		}
		for _, name := range []string{"api", "relay", "consumers"} {
			if err := w.start(name, w.bin, name); err != nil {
				return err
			}
		}
	}
	if err := r.do(ctx, w); err != nil {
		return errors.Join(err, w.logs())
	}
	return nil
}

// useDatabase makes a database, unless it is there, and works on it from now on.
func (w *world) useDatabase(name string) error {
	cfg, err := mysql.ParseDSN(w.server.DSN(""))
	if err != nil {
		return err
	}
	admin, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.Exec("CREATE DATABASE IF NOT EXISTS " + name + " CHARACTER SET utf8mb4"); err != nil {
		return err
	}
	cfg.DBName, cfg.MultiStatements = name, true
	if w.db, err = sql.Open("mysql", cfg.FormatDSN()); err != nil {
		return err
	}
	w.name = name
	w.dsn = w.server.DSN(name)
	return nil
}

func (w *world) env() []string {
	return append(os.Environ(), "ORDERS_DSN="+w.dsn, "ORDERS_BROKER_URL="+w.broker.URL(), "OUTBOXGEN_DSN="+w.dsn)
}

// program runs one of the example's programs to its end.
func (w *world) program(ctx context.Context, bin, name string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name))
	cmd.Env = w.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// start starts one of the example's processes under a name of ours. env comes last.
func (w *world) start(name, bin, program string, env ...string) error {
	log, err := os.Create(filepath.Join(w.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(filepath.Join(bin, program))
	cmd.Env = append(w.env(), env...)
	if program == "api" {
		port, err := throwaway.FreePort()
		if err != nil {
			return err
		}
		w.api = fmt.Sprintf("http://127.0.0.1:%d", port)
		cmd.Env = append(cmd.Env, "ORDERS_LISTEN="+strings.TrimPrefix(w.api, "http://"))
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := throwaway.Start(cmd)
	if err != nil {
		return err
	}
	w.processes[name] = p
	return nil
}

// stop ends a process as a deploy does.
func (w *world) stop(name string) error {
	p := w.processes[name]
	p.Stop(25 * time.Second)
	delete(w.processes, name)
	if err := p.Err(); err != nil {
		return fmt.Errorf("%s did not stop cleanly: %w", name, err)
	}
	return nil
}

// kill ends a process as kill -9 does.
func (w *world) kill(name string) {
	w.processes[name].Kill()
	delete(w.processes, name)
}

// logs are the ends of the processes' logs, for a runbook that failed.
func (w *world) logs() error {
	files, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	var all strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(file), strings.Join(lines[max(0, len(lines)-6):], "\n"))
	}
	return errors.New("ends of the logs:\n" + all.String())
}

// tail prints the end of a process's log.
func (w *world) tail(name string, n int) error {
	text, err := os.ReadFile(filepath.Join(w.dir, name+".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fmt.Printf("$ tail -n %d %s.log\n%s\n", n, name, strings.Join(lines[max(0, len(lines)-n):], "\n"))
	return err
}

// ensureTopology makes the broker's side again.
func (w *world) ensureTopology(ctx context.Context) error {
	b, err := broker.Open(w.broker.URL())
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Ensure(ctx)
}
