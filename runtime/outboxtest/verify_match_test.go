package outboxtest

import "testing"

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
	if n, _ := goroutinesOf(id); n != 4 {
		t.Errorf("%d, want 4", n)
	}
	if n, _ := goroutinesOf("another"); n != 0 {
		t.Errorf("%d of another", n)
	}
	close(stop)
}
