package outbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// An event that makes the publisher panic holds back the later ones of its
// aggregate, as any that failed.
func TestPanicKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(0)
		store.ordered = true
		store.add("a")
		poison := store.add("a")
		for range 3 {
			store.add("a")
		}
		order := newInOrder(t)
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.ID.String() == poison {
				panic("no")
			}
			order.confirmed(e)
			return nil
		}), outbox.RelayConfig{MaxAttempts: 3, RetryBackoff: time.Minute})
		time.Sleep(30 * time.Second)
		if n := store.count("published"); n != 1 {
			t.Errorf("%d published, want the one before the poisonous one", n)
		}
		time.Sleep(10 * time.Minute)
		stop()
		if row := store.row(poison); row.state != "dead" || row.event.Attempts != 3 || store.count("published") != 4 {
			t.Errorf("the poisonous event is %s, %d others published", row.state, store.count("published"))
		}
	})
}

// After a panic the messages go one by one, each with a timeout of its own: when
// the broker doesn't answer for one, the others must not wait for theirs.
func TestPanicWithoutABrokerIsOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(100)
		singles := 0
		r, stop := startRelay(t, store, publisherWithContext(func(ctx context.Context, m []outbox.Envelope) []error {
			if len(m) > 1 {
				panic("no")
			}
			singles++
			<-ctx.Done()
			return answerAll(m, outbox.PublishUnknown(ctx.Err()))
		}), outbox.RelayConfig{PublishTimeout: 10 * time.Second, OutageBackoff: time.Hour, OutageBackoffMax: time.Hour})
		time.Sleep(11 * time.Second)
		if s := r.Stats(); singles != 1 || s.Unknown != 1 || s.Released != 99 || s.Pauses != 1 {
			t.Errorf("%d singles, stats %+v", singles, s)
		}
		stop()
	})
}

func TestPanickingPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, log := newLogBook()
		store := newMemStore(10)
		poison := store.add("poison")
		_, stop := startRelay(t, store, publisherFunc(func(_ context.Context, e outbox.Envelope) error {
			if e.AggregateID == "poison" {
				panic("secret")
			}
			return nil
		}), outbox.RelayConfig{MaxAttempts: 3, Logger: log})
		time.Sleep(time.Minute)
		stop()
		if row := store.row(poison); row.state != "dead" || row.event.Attempts != 3 {
			t.Errorf("the event that makes the publisher panic is %s after %d attempts", row.state, row.event.Attempts)
		}
		if n := store.count("published"); n != 10 {
			t.Errorf("%d others are published, want 10", n)
		}
		if n := book.count("ERROR the publisher panicked"); n != 1 {
			t.Errorf("told %d times:\n%s", n, book)
		}
		if contains(book, "secret") || !contains(book, "string") {
			t.Error("the panic's value was logged, or its type wasn't")
		}
	})
}

// A publisher that panics for every message is broken itself, and no event dies of it.
func TestPublisherThatAlwaysPanicsIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log := newLogBook()
		store, broken := newMemStore(1000), true
		r, stop := startRelay(t, store, publisherBatch(func(m []outbox.Envelope) []error {
			if broken {
				panic("no")
			}
			return make([]error, len(m))
		}), outbox.RelayConfig{MaxAttempts: 3, Logger: log})
		time.Sleep(30 * time.Minute)
		if s := r.Stats(); s.Dead > 30 || s.Pauses == 0 {
			t.Errorf("stats %+v: most of the events must not die of it", s)
		}
		broken = false
		time.Sleep(10 * time.Minute)
		stop()
		if n := store.count("published") + store.count("dead"); n != 1000 {
			t.Errorf("%d events are published or dead, want 1000", n)
		}
	})
}

func TestErrorThatPanicsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore(3)
		r, stop := startRelay(t, store, publisherBatch(func([]outbox.Envelope) []error {
			return []error{
				outbox.PublishRejected((*brokenError)(nil)),
				brokenWrapper{outbox.PublishRejected(errors.New("no"))},
				(*brokenError)(nil),
			}
		}), outbox.RelayConfig{})
		time.Sleep(10 * time.Millisecond)
		stop()
		if s := r.Stats(); s.Dead != 2 || s.Unknown != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

type brokenWrapper struct{ err error }

func (e brokenWrapper) Error() string { panic("no text") }
func (e brokenWrapper) Unwrap() error { return e.err }
