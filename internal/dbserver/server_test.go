package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

// onEach runs fn with a program of each flavor, downloaded on first use.
func onEach(t *testing.T, fn func(t *testing.T, bin *Binary)) {
	for _, f := range Flavors() {
		t.Run(string(f), func(t *testing.T) {
			if testing.Short() {
				t.Skip("starts real servers")
			}
			t.Parallel()
			cache, err := CacheDir()
			if err != nil {
				t.Fatal(err)
			}
			bin, err := Install(t.Context(), f, cache, func(line string) { t.Log(line) })
			var unavailable *UnavailableError
			if errors.As(err, &unavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s: %s", bin.Version, bin.Where, bin.Path)
			fn(t, bin)
		})
	}
}

func TestServerLife(t *testing.T) {
	onEach(t, func(t *testing.T, bin *Binary) {
		parent := t.TempDir()
		s, err := Start(t.Context(), bin.Flavor, Options{
			Binary: bin, TempDir: parent, Args: []string{"--max-connections=77"},
		})
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		defer func() {
			if !stopped {
				_ = s.Stop()
			}
		}()
		query(t, s, "CREATE DATABASE life", "CREATE TABLE life.t (id INT PRIMARY KEY)", "INSERT INTO life.t VALUES (1)")
		for name, want := range map[string]string{
			"@@sync_binlog": "1", "@@innodb_flush_log_at_trx_commit": "1", "@@log_bin": "1",
			"@@binlog_format": "ROW", "@@max_connections": "77", "@@bind_address": "127.0.0.1",
		} {
			if got := query(t, s, "SELECT "+name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}

		addr, pid := s.Addr(), s.PID()
		s.Kill()
		if s.Running() {
			t.Error("it runs after Kill")
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != addr || s.PID() == pid {
			t.Errorf("restarted as %d on %s, before as %d on %s", s.PID(), s.Addr(), pid, addr)
		}
		if got := query(t, s, "SELECT COUNT(*) FROM life.t"); got != "1" {
			t.Errorf("%s rows after kill and restart, want 1", got)
		}
		if err := s.Restart(t.Context()); err != nil { // while it runs
			t.Fatal(err)
		}

		stopped = true
		for range 2 {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		left, err := os.ReadDir(parent)
		if err != nil || len(left) != 0 || s.Running() {
			t.Errorf("after Stop: %v left, running %v, %v", left, s.Running(), err)
		}
	})
}

// A server that cannot start is reported at once, with its own words.
func TestStartFails(t *testing.T) {
	onEach(t, func(t *testing.T, bin *Binary) {
		parent := t.TempDir()
		begin := time.Now()
		_, err := Start(t.Context(), bin.Flavor, Options{Binary: bin, TempDir: parent, Args: []string{"--no-such-option"}})
		if err == nil || !strings.Contains(err.Error(), "no-such-option") || time.Since(begin) > 30*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

func TestUnavailable(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, f := range Flavors() {
		_, err := Find(t.Context(), f, t.TempDir())
		var unavailable *UnavailableError
		if err == nil {
			t.Skip("a server is installed here")
		}
		if !errors.As(err, &unavailable) {
			t.Fatal(err)
		}
		for _, want := range []string{f.String(), f.EnvVar() + "=", "install ", "docker run", "neither installed nor in the cache"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error for %v lacks %q:\n%v", f, want, err)
			}
		}
	}
}

// A program goes by what it says it is, not by its name.
func TestFindAsksTheProgram(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	says := func(name, line string) {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", line)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	says("mysqld", "mysqld  Ver 10.11.18-MariaDB for Linux on x86_64")
	got, err := Find(t.Context(), MariaDB, t.TempDir())
	if err != nil || filepath.Base(got.Path) != "mysqld" {
		t.Errorf("MariaDB as mysqld: got %+v, %v", got, err)
	}
	says("mysqld", "mysqld  Ver 5.7.44 for Linux on x86_64")
	_, err = Find(t.Context(), MySQL, t.TempDir())
	if err != nil && !strings.Contains(err.Error(), "5.7.44, older than 8.0.1") {
		t.Errorf("an old MySQL: got %v", err)
	}
}

func TestCacheDir(t *testing.T) {
	for _, name := range []string{CacheVar, "HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := CacheDir()
	if err != nil || !strings.HasPrefix(dir, os.TempDir()) {
		t.Fatalf("without HOME: got %s, %v", dir, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := CacheDir(); err == nil {
		t.Error("a cache folder that others may write to is trusted")
	}
	t.Setenv(CacheVar, filepath.Join(t.TempDir(), "c"))
	if dir, err := CacheDir(); err != nil || dir != os.Getenv(CacheVar) {
		t.Errorf("with %s: got %s, %v", CacheVar, dir, err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	waited := false
	err := withLock(t.Context(), path, nil, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		return withLock(ctx, path, func() { waited = true }, func() error { return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) || !waited {
		t.Errorf("a second holder got the lock: %v, waited %v", err, waited)
	}
}

// query runs statements and returns the last one's only value, if any.
func query(t *testing.T, s *Server, stmts ...string) string {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	value := ""
	for _, stmt := range stmts {
		rows, err := db.Query(stmt)
		if err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
		for rows.Next() {
			if err := rows.Scan(&value); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	return value
}
