package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/storesuite"
)

// asking runs commands that look, on a service's database.
type asking struct {
	t      testing.TB
	config string
	dsn    string
	more   []string // flags of all
}

func asks(t testing.TB, k kind, server dbtest.Database) asking {
	return asking{t: t, config: k.config(), dsn: server.DSN}
}

// run returns what a command prints for people, and its exit code.
func (a asking) run(args ...string) (text string, code int) {
	a.t.Helper()
	args = append(args, "-f", a.config, "--dsn", a.dsn)
	stdout, stderr, code := command(a.t, append(args, a.more...)...)
	tame(a.t, stdout)
	tame(a.t, stderr)
	return stdout + stderr, code
}

// want runs a command and checks its exit code, and parts of what it prints.
func (a asking) want(code int, parts []string, args ...string) {
	a.t.Helper()
	text, got := a.run(args...)
	if got != code {
		a.t.Errorf("outboxgen %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			a.t.Errorf("outboxgen %s doesn't say %q:\n%s", strings.Join(args, " "), part, text)
		}
	}
}

// data runs a command for programs, and reads what it prints into a value.
func (a asking) data(into any, args ...string) {
	a.t.Helper()
	text, code := a.run(append(args, "--format", "json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil || code == 2 {
		a.t.Fatalf("outboxgen %s: exit code %d, %v\n%s", strings.Join(args, " "), code, err, text)
	}
}

// tame fails the test when text has what commands a terminal, or turns the direction of text.
func tame(t testing.TB, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != ' ' && !unicode.IsPrint(r) {
			t.Errorf("%q is printed as it is: %q", r, text)
			return
		}
	}
}

// hostile are values that want to be more than text.
var hostile = map[string]string{
	"escapes":   "\x1b[31mred\x1b]0;title\x07\u009b2J",
	"lines":     "one\nEVENT  STATE\r\ttwo",
	"emoji":     strings.Repeat("\U0001F600", 128),
	"script":    `<script>alert("1")</script>`,
	"direction": "abc\u202edef\u2066",
	"slashes":   "a/b/../c d'\"`%_",
}

// publishDue publishes what is due, and leaves no lease.
func (k kind) publishDue(t testing.TB, db *outbox.DB) {
	t.Helper()
	store, owner := k.newStore(db), storesuite.NewOwner()
	publishAll(t, store, owner)
	if err := store.Release(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
}
