package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// A relay in a process of its own is this program again, with these set.
const (
	envDSN   = "OUTBOXGEN_FAULTRUN_DSN"
	envKind  = "OUTBOXGEN_FAULTRUN_KIND"
	envURL   = "OUTBOXGEN_FAULTRUN_URL" // the broker's
	envLease = "OUTBOXGEN_FAULTRUN_LEASE"
)

// childIfAsked runs a relay, and ends the process, when this is the process for one.
func childIfAsked() {
	if os.Getenv(envDSN) == "" {
		return
	}
	go func() { // the end of stdin is the end of who started it, by a kill if need be
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := runChild(); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild() error {
	k, ok := kindNamed(os.Getenv(envKind))
	if !ok {
		return fmt.Errorf("there is no kind %q", os.Getenv(envKind))
	}
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return err
	}
	db, err := mysqldb.Open(os.Getenv(envDSN))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := relayConfig(lease)
	cfg.Observer = &outbox.Observer{
		Settled: func(s outbox.Settled) {
			if len(s.Lost) > 0 {
				fmt.Println("lost", len(s.Lost))
			}
		},
		StoreFailed: func(f outbox.StoreFailed) {
			fmt.Println("trouble", f.Call, db.Classify(f.Error).Code)
		},
	}
	relay, err := outbox.NewRelay(k.newStore(db), &publisher{client: &http.Client{}, url: os.Getenv(envURL)}, cfg)
	if err != nil {
		return err
	}
	fmt.Println("started")
	return relay.Run(ctx)
}

func relayConfig(lease time.Duration) *outbox.RelayConfig {
	return &outbox.RelayConfig{
		BatchSize: 50, Lease: lease, PublishTimeout: lease / 2,
		PollInterval: 50 * time.Millisecond,
		// So long that an event often waits while its lane goes to another relay, which must learn of it from the table.
		MaxAttempts: maxAttempts, RetryBackoff: 1500 * time.Millisecond, RetryBackoffMax: 1500 * time.Millisecond,
		OutageBackoff: 50 * time.Millisecond, OutageBackoffMax: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}
