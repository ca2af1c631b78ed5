package integration

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// mended is what the commands that mend print for programs.
type mended struct {
	DryRun bool `json:"dry_run"`
	Events []struct {
		EventID string `json:"event_id"`
	} `json:"events"`
	Results []struct {
		EventID string `json:"event_id"`
		Done    bool   `json:"done"`
		Note    string `json:"note"`
	} `json:"results"`
}

// mend runs a command that mends, for programs.
func mend(t *testing.T, want int, args ...string) (out mended) {
	t.Helper()
	stdout, stderr, code := command(t, append(args, "--format", "json")...)
	if code != want {
		t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stdout)
	}
	return out
}

func (m mended) done() (n int) {
	for _, r := range m.Results {
		if r.Done {
			n++
		}
	}
	return n
}

// Dead events from the list to the broker, as somebody does it who reads what commands print.
func TestDeadCommands(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := k.bury(t, db, 1, 5)
		run := func(want int, args ...string) mended {
			t.Helper()
			return mend(t, want, append(args, "-f", k.config(), "--dsn", server.DSN)...)
		}
		if _, stderr, code := command(t, "dead", "redrive", "-f", k.config(), "--dsn", server.DSN); code != 2 || !strings.Contains(stderr, "nothing is selected") {
			t.Errorf("of nothing: %d %s", code, stderr)
		}
		if out := run(0, "dead", "redrive", "--all"); !out.DryRun || len(out.Events) != 5 || count(t, db, "outbox_event WHERE status = 3") != 5 {
			t.Errorf("a dry run: %+v", out)
		}
		if out := run(0, "dead", "redrive", ids[0].String(), strings.ToUpper(ids[1].String()), "--yes"); out.DryRun || out.done() != 2 {
			t.Errorf("two of them: %+v", out)
		}
		if out := run(1, "dead", "redrive", ids[0].String(), ids[2].String(), "--yes"); out.done() != 1 || !strings.Contains(out.Results[0].Note, "pending") {
			t.Errorf("one again: %+v", out)
		}
		if out := run(0, "dead", "redrive", "--kind", "nothing", "--yes"); len(out.Results) != 0 {
			t.Errorf("of a kind that there isn't: %+v", out)
		}
		if _, stderr, code := command(t, "dead", "discard", "--all", "--yes", "-f", k.config(), "--dsn", server.DSN); code != 2 || !strings.Contains(stderr, "--reason") {
			t.Errorf("without a reason: %d %s", code, stderr)
		}
		if out := run(0, "dead", "discard", ids[3].String(), "--reason", "a test", "--yes"); out.done() != 1 {
			t.Errorf("one is discarded: %+v", out)
		}
		if out := run(0, "dead", "redrive", "--type", "order.accepted", "--yes", "--rate", "0"); out.done() != 1 {
			t.Errorf("the rest: %+v", out)
		}
		if n := publishAll(t, k.newStore(db), storesuite.NewOwner()); n != 4 {
			t.Errorf("%d events were published, want 4", n)
		}
		stdout, _, code := command(t, "audit", "-f", k.config(), "--dsn", server.DSN)
		if code != 0 || strings.Count(stdout, "dead.redrive") != 4 || strings.Count(stdout, "dead.discard") != 1 {
			t.Errorf("the audit: %d\n%s", code, stdout)
		}
	})
}

// Parked events likewise, with a consumer that runs.
func TestParkedCommands(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		parking := true
		consumer := report(db, func(ctx context.Context, tx *outbox.Tx, id string) error {
			if parking {
				return outbox.Permanent(errors.New("not now"))
			}
			return tally(ctx, tx, id)
		})
		ids := park(t, consumer, 3)
		parking = false
		run := func(want int, args ...string) mended {
			t.Helper()
			return mend(t, want, append(args, "-f", lanesKind.config(), "--dsn", server.DSN)...)
		}
		if _, stderr, code := command(t, "parked", "redrive", "sales-reports", "--all", "-f", lanesKind.config(), "--dsn", server.DSN); code != 2 || !strings.Contains(stderr, `did you mean "sales-report"?`) {
			t.Errorf("of an unknown consumer: %d %s", code, stderr)
		}
		if out := run(0, "parked", "redrive", salesReport, "--all"); !out.DryRun || len(out.Events) != 3 || out.Events[0].EventID != ids[0].String() {
			t.Errorf("a dry run: %+v", out)
		}
		if out := run(1, "parked", "redrive", salesReport, ids[0].String(), "--yes", "--wait", "1ms"); out.done() != 0 || !strings.Contains(out.Results[0].Note, "still waiting") {
			t.Errorf("without a consumer: %+v", out)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = consumer.RunRedrives(ctx) })
		defer running.Wait()
		defer stop()
		awaitRedrives(t, operations(t, lanesKind, server), ids[:1])
		if out := run(1, "parked", "redrive", salesReport, ids[0].String(), ids[1].String(), "--yes"); out.done() != 1 || !strings.Contains(out.Results[0].Note, "already processed") {
			t.Errorf("one of them again: %+v", out)
		}
		if out := run(0, "parked", "discard", salesReport, ids[2].String(), "--reason", "a test", "--yes"); out.done() != 1 {
			t.Errorf("one is discarded: %+v", out)
		}
		if n := count(t, db, "tally"); n != 2 || count(t, db, "parked_event") != 0 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}
