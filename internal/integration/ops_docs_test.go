package integration

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/cli"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var update = flag.Bool("update", false, "rewrite the output in docs/commands.md")

var (
	consoles = regexp.MustCompile("(?s)```console\n\\$ outboxgen ([^\n]*)\n(.*?)```")
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ( \((in )?\w+( ago)?\))?|due for \w+|for \w+s\b`)
	blanks   = regexp.MustCompile(` {2,}`)
)

// What docs/commands.md shows is what the commands print.
func TestCommandsInDocs(t *testing.T) {
	const file = "../../docs/commands.md"
	guide, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, flavor := range dbserver.Flavors() {
		t.Run(string(flavor), func(t *testing.T) {
			server := dbtest.New(t, flavor)
			server.Exec(t, lanesKind.schema()...)
			ids := exampleForDocs(t, server)
			shown := 0
			text := consoles.ReplaceAllStringFunc(string(guide), func(block string) string {
				shown++
				parts := consoles.FindStringSubmatch(block)
				got, _ := asks(t, lanesKind, server).run(strings.Fields(ids.Replace(parts[1]))...)
				got = back(ids, got)
				if settled(got) != settled(parts[2]) && !*update {
					t.Errorf("outboxgen %s prints\n%s\nand docs/commands.md has\n%s", parts[1], got, parts[2])
				}
				return "```console\n$ outboxgen " + parts[1] + "\n" + got + "```"
			})
			if shown < 9 {
				t.Errorf("%d examples were found", shown)
			}
			if *update && flavor == dbserver.MySQL {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// settled is an output without what differs from run to run.
func settled(text string) string {
	return blanks.ReplaceAllString(moments.ReplaceAllString(text, "TIME"), " ")
}

// names are what the docs call what a run has.
type names struct{ doc, run []string }

func (n names) Replace(text string) string { return replaced(text, n.doc, n.run) }

// back gives what a run printed the names of the docs.
func back(n names, text string) string { return replaced(text, n.run, n.doc) }

func replaced(text string, from, to []string) string {
	pairs := make([]string, 0, 2*len(from))
	for i := range from {
		pairs = append(pairs, from[i], to[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// exampleForDocs has a dead event, one that was applied, one that is parked and one that waits.
func exampleForDocs(t *testing.T, server dbtest.Database) names {
	db := open(t, server.DSN)
	mustExec(t, db, "CREATE TABLE tally (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
	n := names{doc: []string{"ann@ops"}, run: []string{ops.Operator()}}
	id := func(v int) uuid.UUID {
		made := outbox.NewEventID()
		n.doc = append(n.doc, fmt.Sprintf("019b76da-a800-7000-8000-%012d", v))
		n.run = append(n.run, made.String())
		return made
	}
	write := func(event uuid.UUID, order, version int64) {
		if _, err := outbox.InTx(t.Context(), db, func(tx *outbox.Tx) error { return lanesKind.write(t.Context(), tx, event, order, version) }); err != nil {
			t.Fatal(err)
		}
	}
	dead, applied, parked, waiting := id(1), id(2), id(3), id(4)
	write(dead, 7, 1)
	lanesKind.buryDue(t, db)
	write(applied, 7, 2)
	write(parked, 8, 1)
	lanesKind.publishDue(t, db)
	e := envelope(t)
	e.ID, e.AggregateID, e.AggregateVersion = applied, "7", 2
	ends(t, report(db, tally), e, outbox.Applied)
	e.ID, e.AggregateID, e.AggregateVersion = parked, "8", 1
	ends(t, report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("no such tenant")) }), e, outbox.Parked)
	write(waiting, 9, 1)
	if _, _, err := operations(t, lanesKind, server).PauseClaims(t.Context(), "the broker moves"); err != nil {
		t.Fatal(err)
	}
	return n
}

// ends after so many looks, as somebody with Ctrl-C does.
type ender struct {
	mu    sync.Mutex
	text  bytes.Buffer
	looks int
	end   func()
}

func (e *ender) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text.Write(p)
	if strings.Count(e.text.String(), "EVENTS\n") == e.looks {
		e.end()
	}
	return len(p), nil
}

// status --watch shows it anew until it is asked to end, without commands for a terminal where there is none.
func TestStatusWatch(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, _ *outbox.DB) {
		ctx, stop := context.WithCancel(t.Context())
		out := &ender{looks: 3, end: stop}
		var errs bytes.Buffer
		code := cli.Main(ctx, []string{"status", "--watch", "500ms", "-f", lanesKind.config(), "--dsn", server.DSN}, out, &errs)
		if code != 0 || errs.Len() > 0 {
			t.Errorf("exit code %d\n%s", code, errs.String())
		}
		tame(t, out.text.String())
		if code := cli.Main(ctx, []string{"status", "--watch", "500ms", "-f", lanesKind.config(), "--dsn", server.DSN}, &errs, &errs); code != 0 || strings.Contains(errs.String(), "cancel") {
			t.Errorf("ended while it looked: exit code %d\n%s", code, errs.String())
		}
	})
}
