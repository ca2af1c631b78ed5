package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// outboxgen runs a command of the page, prints it with its answer, and returns the answer. want is
// the exit code that the page promises.
func (w *world) outboxgen(ctx context.Context, want int, args ...string) (string, error) {
	return w.outboxgenAs(ctx, w.dsn, want, args...)
}

func (w *world) outboxgenAs(ctx context.Context, dsn string, want int, args ...string) (string, error) {
	cmd := w.command(ctx, dsn, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	fmt.Printf("$ outboxgen %s\n%s", quoted(args), out.String())
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return out.String(), err
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		return out.String(), fmt.Errorf("outboxgen %s ended with exit code %d, not %d", quoted(args), code, want)
	}
	return out.String(), nil
}

func (w *world) command(ctx context.Context, dsn string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "outboxgen"), args...)
	cmd.Env = append(w.env(), "OUTBOXGEN_DSN="+dsn)
	return cmd
}

func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; strings.ContainsAny(a, " *") {
			words[i] = "'" + a + "'"
		}
	}
	return strings.Join(words, " ")
}

// says runs a command and looks for words in its answer.
func (w *world) says(ctx context.Context, want int, words []string, args ...string) error {
	out, err := w.outboxgen(ctx, want, args...)
	if err != nil {
		return err
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			return fmt.Errorf("outboxgen %s doesn't say %q", quoted(args), word)
		}
	}
	return nil
}

// order asks the api for n orders of a tenant.
func (w *world) order(ctx context.Context, tenant, n int) error {
	return w.orderNote(ctx, tenant, n, "")
}

func (w *world) orderNote(ctx context.Context, tenant, n int, note string) error {
	for range n {
		w.lastOrder++
		body, err := json.Marshal(map[string]any{
			"request_id": fmt.Sprintf("r-%d", w.lastOrder), "currency": "EUR", "note": note,
			"lines": []any{map[string]any{"sku": "apple", "quantity": 1, "unit_price": map[string]any{"amount": "1.50", "currency": "EUR"}}},
		})
		if err != nil {
			return err
		}
		err = await(ctx, 30*time.Second, "an order is taken", func() (bool, error) { return w.post(ctx, tenant, body) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) post(ctx context.Context, tenant int, body []byte) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api+"/orders", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("X-Tenant-ID", fmt.Sprint(tenant))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the api answered %s: %s", res.Status, text)
	}
	return err == nil, err
}

// count asks the database for a number.
func (w *world) count(ctx context.Context, query string, args ...any) (n int, err error) {
	err = w.db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// awaitCount waits until the database counts so many: longer than the minute for which a relay that
// was frozen in the middle of a claim keeps its locks.
func (w *world) awaitCount(ctx context.Context, want int, query string) error {
	var last int
	err := await(ctx, 2*time.Minute, fmt.Sprintf("%s is %d", query, want), func() (bool, error) {
		n, err := w.count(ctx, query)
		last = n
		return n == want, err
	})
	if err != nil {
		return fmt.Errorf("%w; it is %d", err, last)
	}
	return nil
}

// exec runs SQL as somebody does by hand, and prints it.
func (w *world) exec(ctx context.Context, statements string) error {
	fmt.Printf("mysql> %s\n", strings.TrimSpace(statements))
	_, err := w.db.ExecContext(ctx, statements)
	return err
}

const (
	pending   = "SELECT COUNT(*) FROM outbox_event WHERE status = 0"
	published = "SELECT COUNT(*) FROM outbox_event WHERE status = 2"
	dead      = "SELECT COUNT(*) FROM outbox_event WHERE status = 3"
	parked    = "SELECT COUNT(*) FROM parked_event"
	jobs      = "SELECT COUNT(*) FROM notification_job"
	reported  = "SELECT COALESCE(SUM(orders), 0) FROM sales_report"
)

// mended waits for what every runbook ends with: every order was applied once by both consumers,
// nothing waits, is dead or parked, and reconcile finds no difference.
func (w *world) mended(ctx context.Context) error {
	for _, is := range []struct {
		query string
		want  int
	}{
		{pending, 0}, {dead, 0}, {parked, 0}, {jobs, w.lastOrder}, {reported, w.lastOrder},
		{"SELECT COUNT(DISTINCT event_id) FROM notification_job", w.lastOrder},
		{"SELECT COUNT(*) FROM orders", w.lastOrder},
	} {
		if err := w.awaitCount(ctx, is.want, is.query); err != nil {
			return err
		}
	}
	return w.reconcile(ctx, 0)
}

// reconcile looks at everything up to now. want is the exit code.
func (w *world) reconcile(ctx context.Context, want int, more ...string) error {
	_, err := w.outboxgen(ctx, want, append([]string{"reconcile", "--publish-delay", "1s", "--apply-delay", "1s"}, more...)...)
	return err
}
