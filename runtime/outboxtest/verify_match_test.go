package outboxtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A value that looks like a statement is none: they are in the statements that the proxy sees.
func TestInsertsInto(t *testing.T) {
	match := insertsInto(eventTable)
	for statement, want := range map[string]bool{
		"INSERT INTO outbox_event (event_id) VALUES ('x')":                                         true,
		"-- name: InsertEvent :exec\n\nINSERT INTO shop_outbox_event (\n  event_id) VALUES (?)":    true,
		"INSERT INTO orders (note) VALUES ('INSERT INTO outbox_event (event_id)')":                 false,
		"INSERT INTO outbox_event_copy (event_id) VALUES ('x')":                                    false,
		"-- name: Look :one\nSELECT event_id FROM outbox_event WHERE event_id = 'INSERT INTO'":     false,
		"UPDATE outbox_event SET status = 2 WHERE event_id IN ('INSERT INTO outbox_event (x)')":    false,
		"INSERT INTO outbox_relay (owner) VALUES ('x') -- INSERT INTO outbox_event (event_id)":     false,
		"SELECT 1; -- \nINSERT INTO outbox_event (event_id) VALUES ('two statements are refused')": false,
	} {
		if match(statement) != want {
			t.Errorf("%q: %v", statement, !want)
		}
	}
}

func TestHasAny(t *testing.T) {
	log := new(logBook)
	log.logger().Error("write", "error", "a private value")
	if log.has(nil) || log.has([]string{"other"}) || !log.has([]string{"other", "private"}) {
		t.Error("the log is searched wrongly")
	}
}

// Of what a goroutine starts, directly or not, nothing is missed, and nothing else counted.
func TestGoroutines(t *testing.T) {
	const id = "an id"
	if n, _ := goroutinesOf(id); n != 0 {
		t.Fatalf("%d before", n)
	}
	stop, begun := make(chan struct{}), make(chan struct{})
	labelled(t.Context(), id, func() {
		for range 2 {
			go func() {
				go func() { begun <- struct{}{}; <-stop }()
				begun <- struct{}{}
				<-stop
			}()
		}
		for range 4 {
			<-begun
		}
	})
	go func() { <-stop }()
	n, stacks := goroutinesOf(id)
	if n != 4 || len(stacks) < 2 { // more, while some are still on their way to where they wait
		t.Errorf("%d, want 4: %q", n, stacks)
	}
	for _, s := range stacks {
		if !strings.Contains(s, " goroutines in github.com/outboxgen/outboxgen/runtime/outboxtest.TestGoroutines.func") ||
			!strings.Contains(s, "(verify_match_test.go:") || strings.Contains(s, "runtime.gopark") {
			t.Errorf("%q", s)
		}
	}
	if n, _ := goroutinesOf("another"); n != 0 {
		t.Errorf("%d of another", n)
	}
	close(stop)
}

// Of a stack the frames of our module are shown, four at most, or else the goroutine's first function.
func TestFrames(t *testing.T) {
	const frame, library = "#\t0x1\t", "#\t0x1\tdatabase/sql.(*DB).connectionOpener+0x5\t/go/src/database/sql/sql.go:12\n"
	ours := frame + "github.com/outboxgen/outboxgen/example/orders.(*Service).Accept.func1+0x1f\t/src/example/orders/accept.go:7\n"
	const shownAs = "github.com/outboxgen/outboxgen/example/orders.(*Service).Accept.func1 (accept.go:7)"
	for _, c := range []struct {
		stack string
		want  []string
	}{
		{"1 @ 0x1\n# labels: {}\n" + library + ours + library, []string{shownAs}},
		{strings.Repeat(ours, 9), slices.Repeat([]string{shownAs}, 4)},
		{frame + "github.com/outboxgen/outboxgenother.f+0x1\t/src/f.go:1\n" + library, []string{"database/sql.(*DB).connectionOpener (sql.go:12)"}},
		{"1 @ 0x1\n", []string{"an unknown function"}},
	} {
		if got := framesOf(c.stack); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestIsIn(t *testing.T) {
	for function, want := range map[string]bool{
		"shop.main": true, "shop/orders.Accept": true, "shop_test.TestX": true, "shopping.Buy": false, "other/shop.Sell": false, "shop-x/y.Z": false,
	} {
		if isIn(function, "shop") != want {
			t.Errorf("%s: %v", function, !want)
		}
	}
	if isIn(".f", "") {
		t.Error("everything is of a module without a name")
	}
}

// What is a handler's statement is told from what the runtime sends in the same transaction.
func TestOfHandler(t *testing.T) {
	for statement, want := range map[string]bool{
		"INSERT INTO job (event_id) VALUES ('x')":                                             true,
		"SELECT * FROM consumed_version":                                                      true,
		"UPDATE parked_events SET n = 1":                                                      true,
		"-- name: SetVersion :exec\nUPDATE shop_consumed_version\nSET version = 1":            false,
		"INSERT INTO parked_event (consumer_name) VALUES ('x')":                               false,
		"-- name: CountFailure :exec\nINSERT INTO consumer_failure (consumer_name) VALUES ()": false,
		"COMMIT": false, "ROLLBACK": false,
	} {
		if ofHandler(statement) != want {
			t.Errorf("%q: %v", statement, !want)
		}
	}
	id := uuid.New()
	insert := "INSERT INTO consumed_event (consumer_name, event_id) VALUES ('x', '" + id.String() + "')"
	if of := dedupOf(id); !of(insert) || of(strings.ReplaceAll(insert, id.String(), uuid.NewString())) || of("SELECT '"+insert+"'") {
		t.Error("a dedup row's insert is not told by its event")
	}
}
