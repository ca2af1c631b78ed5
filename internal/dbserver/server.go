package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// Options of Start. The zero value is good for tests.
type Options struct {
	// Binary is the program to start. Defaults to what Install returns.
	Binary *Binary
	// CacheDir holds downloads and data folder templates. Defaults to CacheDir().
	CacheDir string
	// TempDir is where the server's folder is made. Defaults to os.TempDir().
	TempDir string
	// Args are further options of the server, such as
	// "--innodb-lock-wait-timeout=2". They win over those of this package.
	Args []string
	// ReadyTimeout bounds the wait for the first connection, at Start and at
	// each Restart. Defaults to 60 s.
	ReadyTimeout time.Duration
	// StopTimeout bounds a graceful stop, before the kill. Defaults to 20 s.
	StopTimeout time.Duration
	// Progress gets a plain line for each slow step. Defaults to none.
	Progress func(string)
}

func (o Options) withDefaults(ctx context.Context, f Flavor) (Options, error) {
	var err error
	if o.CacheDir == "" {
		if o.CacheDir, err = CacheDir(); err != nil {
			return o, err
		}
	}
	if o.Binary == nil {
		if o.Binary, err = Install(ctx, f, o.CacheDir, o.Progress); err != nil {
			return o, err
		}
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 60 * time.Second
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 20 * time.Second
	}
	return o, nil
}

// Server is a throwaway server on 127.0.0.1. Its methods must not be called
// from several goroutines at once.
type Server struct {
	Flavor Flavor
	Binary *Binary

	opts Options
	work *workDir
	port int
	proc *throwaway.Process
}

var errPortTaken = errors.New("the port was taken by another program")

// Start runs a server with an empty data folder and returns when it answers.
// It logs row by row to the binary log and flushes every commit, as a server
// in production does.
func Start(ctx context.Context, f Flavor, opts Options) (*Server, error) {
	opts, err := opts.withDefaults(ctx, f)
	if err != nil {
		return nil, err
	}
	work, err := newWorkDir(opts.TempDir, f)
	if err != nil {
		return nil, err
	}
	s := &Server{Flavor: f, Binary: opts.Binary, opts: opts, work: work}
	if err := newDataDir(ctx, s.Binary, opts.CacheDir, work.join("data")); err != nil {
		return nil, errors.Join(err, work.remove())
	}
	for range 3 {
		if s.port, err = throwaway.FreePort(); err != nil {
			break
		}
		if err = s.launch(ctx); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, work.remove())
	}
	return s, nil
}

// Addr is the server's "127.0.0.1:port". It stays the same after a Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN is a go-sql-driver DSN for root, who has no password, over TCP. An
// empty database name selects none.
func (s *Server) DSN(database string) string {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", s.Addr(), database
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 5*time.Second, 30*time.Second, 30*time.Second
	cfg.InterpolateParams = true
	return cfg.FormatDSN()
}

// PID is the process ID of the server, or of the last one if it has ended.
func (s *Server) PID() int { return s.proc.PID() }

// Running reports whether the process is there.
func (s *Server) Running() bool { return !s.proc.Ended() }

// ErrorLog is the end of the server's error log, for messages to people.
func (s *Server) ErrorLog() string {
	var text strings.Builder
	for _, name := range []string{"output.log", "error.log"} {
		if part, err := os.ReadFile(s.work.join(name)); err == nil {
			text.Write(part)
		}
	}
	return tail(text.String(), 20)
}

// Stop ends the server, gracefully within Options.StopTimeout, and removes
// its folder. A second Stop does nothing.
func (s *Server) Stop() error {
	if s.Running() {
		s.proc.Stop(s.opts.StopTimeout)
	}
	return s.work.remove()
}

// Kill ends the server as kill -9 does, and leaves its data as they are.
func (s *Server) Kill() { s.proc.Kill() }

// Restart starts the server again on the same data and port, after a Kill
// or, if it still runs, after a graceful stop.
func (s *Server) Restart(ctx context.Context) error {
	if s.Running() {
		s.proc.Stop(s.opts.StopTimeout)
	}
	return s.launch(ctx)
}

func (s *Server) launch(ctx context.Context) error {
	// Emptied, so that what a message quotes is of this start.
	for _, name := range []string{"output.log", "error.log"} {
		if err := os.RemoveAll(s.work.join(name)); err != nil {
			return err
		}
	}
	proc, err := startProcess(s.Binary, s.args(), s.work)
	if err != nil {
		return fmt.Errorf("start %v: %w", s.Flavor, err)
	}
	s.proc = proc
	if err := s.waitReady(ctx); err != nil {
		s.proc.Kill()
		return fmt.Errorf("start %v %s: %w\nend of its error log:\n%s", s.Flavor, s.Binary.Version, err, s.ErrorLog())
	}
	return nil
}

func (s *Server) args() []string {
	args := append(s.Binary.baseArgs(s.dataDir()),
		"--bind-address=127.0.0.1",
		"--port="+strconv.Itoa(s.port),
		// Relative to the data folder: a long path would not fit a socket's.
		"--socket=mysql.sock",
		"--pid-file="+s.work.join("pid"),
		"--log-error="+s.work.join("error.log"),
		"--tmpdir="+s.work.join("tmp"),
		// root has no password, so everybody on this machine may log in: keep
		// LOAD DATA and INTO OUTFILE inside the server's own folder.
		"--secure-file-priv="+s.work.join("files"),
		"--server-id=1",
		"--log-bin=binlog",
		"--sync-binlog=1",
		"--innodb-flush-log-at-trx-commit=1",
		"--innodb-buffer-pool-size=512M",
		"--max-connections=500",
	)
	if s.Flavor == MariaDB {
		args = append(args, "--binlog-format=ROW") // MIXED by default
	} else {
		args = append(args, "--loose-mysqlx=0") // it would take a second port
	}
	return append(args, s.opts.Args...)
}

func (s *Server) dataDir() string { return s.work.join("data") }

// waitReady returns when our own server answers on the port.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.ReadyTimeout,
		fmt.Errorf("it did not answer within %v", s.opts.ReadyTimeout))
	defer cancel()
	cfg, err := mysql.ParseDSN(s.DSN(""))
	if err != nil {
		return err
	}
	cfg.Logger = &mysql.NopLogger{} // refused connections are expected here
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for {
		var dir string
		err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&dir)
		// Another server may have been faster to take the port.
		if err == nil && filepath.Clean(dir) == s.dataDir() {
			return nil
		}
		select {
		case <-s.proc.Done():
			if strings.Contains(s.ErrorLog(), "already in use") {
				return errPortTaken
			}
			return fmt.Errorf("it ended at once: %w", s.proc.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
