package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func relaysDied(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 20); err != nil {
		return err
	}
	w.kill("relay")
	if err := w.order(ctx, 2, 30); err != nil {
		return err
	}
	// A dead relay is taken for alive as long as its last sign of life says.
	err := await(ctx, time.Minute, "status says that no relay is alive", func() (bool, error) {
		return w.quietly(ctx, "NO RELAY IS ALIVE", "status")
	})
	if err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"NO RELAY IS ALIVE", "oldest waiting"}, "status"); err != nil {
		return err
	}
	if err := w.start("relay", w.bin, "relay"); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 0, pending); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"pending"}, "status"); err != nil {
		return err
	}
	return w.mended(ctx)
}

func relayFrozen(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 40); err != nil {
		return err
	}
	if err := freeze(w.processes["relay"].PID()); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 40); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"pending"}, "status"); err != nil {
		return err
	}
	if err := w.start("relay-2", w.bin, "relay"); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 0, pending); err != nil { // the frozen one's leases have run out
		return err
	}
	if err := thaw(w.processes["relay"].PID()); err != nil {
		return err
	}
	return w.mended(ctx)
}

func pauseForgotten(ctx context.Context, w *world) error {
	if _, err := w.outboxgen(ctx, 0, "pause", "--reason", "the broker moves"); err != nil {
		return err
	}
	if err := w.pauseHolds(ctx); err != nil {
		return err
	}
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"CLAIMS ARE PAUSED", "the broker moves"}, "status"); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"pause", "resume"}, "audit"); err != nil {
		return err
	}
	return w.mended(ctx)
}

// pauseHolds waits until the relay has seen the pause and no lease is held.
func (w *world) pauseHolds(ctx context.Context) error {
	return await(ctx, 30*time.Second, "the relay stands still", func() (bool, error) {
		log, err := os.ReadFile(filepath.Join(w.dir, "relay.log"))
		if err != nil || !strings.Contains(string(log), "claims are paused") {
			return false, err
		}
		return w.quietly(ctx, "no lease is held", "status")
	})
}

func deploy(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 20); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "pause", "--reason", "deploy 42"); err != nil {
		return err
	}
	if err := w.pauseHolds(ctx); err != nil {
		return err
	}
	if err := w.says(ctx, 0, []string{"deploy 42", "no lease is held"}, "status"); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 20); err != nil {
		return err
	}
	for _, name := range []string{"relay", "consumers"} {
		if err := w.stop(name); err != nil {
			return err
		}
		if err := w.start(name, w.bin, name); err != nil {
			return err
		}
	}
	if err := w.awaitCount(ctx, 20, pending); err != nil { // the new relay holds still as well
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	return w.mended(ctx)
}

func brokerDown(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 20); err != nil {
		return err
	}
	if err := w.broker.Kill(); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 40); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second): // longer than a lease
	}
	if err := w.says(ctx, 0, []string{"oldest waiting", "their broker doesn't answer"}, "status"); err != nil {
		return err
	}
	if err := w.tail("relay", 3); err != nil {
		return err
	}
	if err := w.broker.Restart(ctx); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 0, pending); err != nil {
		return err
	}
	// No attempt was counted, and nothing died.
	if err := w.awaitCount(ctx, 0, "SELECT COUNT(*) FROM outbox_event WHERE attempts > 0 OR status = 3"); err != nil {
		return err
	}
	return w.mended(ctx)
}
