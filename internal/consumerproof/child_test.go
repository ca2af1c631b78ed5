package consumerproof

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The steps of a consumer's work at which a child process of the test dies.
const (
	afterDelivery = "after the delivery, before Handle"
	afterDedup    = "after the dedup row"
	afterEffect   = "after the effect, before the commit"
	afterCommit   = "after the commit, before the acknowledgement"
)

var consumerSteps = []string{afterDelivery, afterDedup, afterEffect, afterCommit}

// childEnv has a child's orders, and makes a process one.
const childEnv = "OUTBOXGEN_TEST_CONSUMER"

// orders of a child process: consume, and die when the step has come Nth times.
type orders struct {
	DSN   string
	Place place
	Step  string
	Nth   int64
}

func runChild(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	db, err := mysqldb.Open(o.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	var seen atomic.Int64
	at := func(step string) {
		if step == o.Step && seen.Add(1) == o.Nth {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	// A child that has nobody to kill it should not stay for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := o.Place.subscribe(ctx, steppingConsumer(db, at), settings{concurrency: 4}); err != nil {
		return err
	}
	return errors.New("the step did not come")
}

// stepper tells the steps of a consumer's work, and writes down what it absorbed.
type stepper struct {
	outbox.Handler
	db *outbox.DB
	at func(step string)
}

func (s stepper) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	s.at(afterDelivery)
	handling, err := s.Handler.Handle(ctx, e)
	switch {
	case handling == outbox.Applied:
		s.at(afterCommit)
	case handling == outbox.Duplicate:
		if _, err := s.db.ExecContext(ctx, "INSERT INTO absorbed (event_id) VALUES (?)", e.ID.String()); err != nil {
			return outbox.NotHandled, err
		}
	}
	return handling, err
}

func steppingConsumer(db *outbox.DB, at func(step string)) outbox.Handler {
	do := func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
		at(afterDedup)
		if err := tally(ctx, tx, e); err != nil {
			return err
		}
		at(afterEffect)
		return nil
	}
	return stepper{
		Handler: orderevents.NewSalesReport(db, effect(do), &outbox.ConsumerConfig{Logger: quiet()}),
		db:      db, at: at,
	}
}

// consumeAndDie runs a child process until it has died at its step.
func consumeAndDie(t *testing.T, o orders) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:errcheck,forcetypeassert // of this system
		t.Fatalf("the consumer did not die %s: %v", o.Step, err)
	}
}
