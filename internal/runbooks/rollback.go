package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// older builds the example's programs of an older commit, once.
func (w *world) older(ctx context.Context) (bin string, err error) {
	if w.oldBin != "" {
		return w.oldBin, nil
	}
	commit := w.opts.old
	if commit == "" {
		if commit, err = git(ctx, "log", "--diff-filter=A", "--format=%H^", "--", "internal/ops/service.go"); err != nil || commit == "" {
			return "", errors.Join(errors.New("the history has no commit without internal/ops: fetch all of it, or name one with -old"), err)
		}
	}
	tree := filepath.Join(w.dir, "old")
	if _, err := git(ctx, "worktree", "add", "--detach", tree, commit); err != nil {
		return "", err
	}
	w.oldBin = filepath.Join(w.dir, "oldbin")
	err = build(ctx, tree, w.oldBin, "./example/cmd/...")
	_, removed := git(ctx, "worktree", "remove", "--force", tree)
	return w.oldBin, errors.Join(err, removed)
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// restart ends processes as a deploy does, and starts them of another build.
func (w *world) restart(bin string, names ...string) error {
	for _, name := range names {
		if err := w.stop(name); err != nil {
			return err
		}
		if err := w.start(name, bin, name); err != nil {
			return err
		}
	}
	return nil
}

// olderBuild: relay and consumers go back to a build that knows nothing of the newest tables.
func olderBuild(ctx context.Context, w *world) error {
	old, err := w.older(ctx)
	if err != nil {
		return err
	}
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.restart(old, "relay", "consumers"); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 10); err != nil {
		return err
	}
	if err := w.order(ctx, 4, 1); err != nil { // to be parked by the older build
		return err
	}
	if err := w.awaitCount(ctx, 1, parked); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 21, published); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "status"); err != nil {
		return err
	}
	if err := w.exec(ctx, "INSERT INTO notification_channel (tenant_id, channel) VALUES (4, 'mail')"); err != nil {
		return err
	}
	// The older build doesn't know of redrives: the wish waits for a process that does.
	err = w.says(ctx, 1, []string{"still waiting"}, "parked", "redrive", "notification-planner", "--all", "--yes", "--wait", "3s")
	if err != nil {
		return err
	}
	// Nor of a pause.
	if _, err := w.outboxgen(ctx, 0, "pause", "--reason", "does the older relay obey?"); err != nil {
		return err
	}
	if err := w.order(ctx, 1, 2); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 0, pending); err != nil {
		return err
	}
	fmt.Println("(an older relay doesn't obey the pause)")
	if _, err := w.outboxgen(ctx, 0, "resume"); err != nil {
		return err
	}
	if err := w.restart(w.bin, "relay", "consumers"); err != nil {
		return err
	}
	return w.mended(ctx)
}

// oldTables: a build is newer than the migration.
func oldTables(ctx context.Context, w *world) error {
	old, err := w.older(ctx)
	if err != nil {
		return err
	}
	if err := w.program(ctx, old, "setup"); err != nil {
		return err
	}
	for _, name := range []string{"api", "relay", "consumers"} {
		if err := w.start(name, w.bin, name); err != nil {
			return err
		}
	}
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	for _, name := range []string{"relay", "consumers"} {
		err := await(ctx, time.Minute, name+" says what adds a missing table", func() (bool, error) {
			log, err := os.ReadFile(filepath.Join(w.dir, name+".log"))
			return strings.Contains(string(log), "outboxgen schema diff"), err
		})
		if err != nil {
			return err
		}
		if err := w.tail(name, 3); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"status"}, {"doctor"}} {
		if _, err := w.outboxgen(ctx, map[string]int{"status": 2, "doctor": 1}[args[0]], args...); err != nil {
			return err
		}
	}
	statements, err := w.command(ctx, w.dsn, "schema", "diff").Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return fmt.Errorf("schema diff found no difference: %w", err)
	}
	if err := w.exec(ctx, string(statements)); err != nil {
		return err
	}
	if _, err := w.outboxgen(ctx, 0, "schema", "diff"); err != nil {
		return err
	}
	return w.mended(ctx)
}

// otherOrdering: the way to ordering none and back, with events that wait.
func otherOrdering(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.stop("relay"); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 10); err != nil {
		return err
	}
	for _, config := range []string{"internal/variants/rows/events.yaml", "events.yaml"} {
		statements, err := w.command(ctx, w.dsn, "schema", "diff", "-f", config).Output()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			return fmt.Errorf("schema diff -f %s: %w\n%s", config, err, statements)
		}
		fmt.Printf("$ outboxgen schema diff -f %s\n", config)
		if err := w.exec(ctx, string(statements)); err != nil {
			return err
		}
		if _, err := w.outboxgen(ctx, 0, "status", "-f", config); err != nil {
			return err
		}
	}
	if err := w.start("relay", w.bin, "relay"); err != nil {
		return err
	}
	return w.mended(ctx)
}
