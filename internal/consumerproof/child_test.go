package consumerproof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The steps of a consumer's work at which a child process of the test dies.
const (
	afterDelivery = "after the delivery"
	afterDedup    = "after the dedup row"
	afterEffect   = "after the effect"
	afterCommit   = "after the commit"
)

var consumerSteps = []string{afterDelivery, afterDedup, afterEffect, afterCommit}

// childEnv has a child's orders, and makes a process one.
const childEnv = "OUTBOXGEN_TEST_CONSUMER"

// childTime bounds a child's life: one that nobody waits for should not stay.
const childTime = 2 * time.Minute

// orders of a child process: consume, let every event stand at the step that comes so far,
// and die when so many different ones have been delivered and so many of them stand there.
type orders struct {
	DSN       string
	Place     place
	Step      string
	Delivered int
	Standing  int
}

// grace is from then to the death: time for what acknowledges too early to be seen by it.
const grace = 200 * time.Millisecond

// openTransactions is how many a child has at a time. The other events that it was
// delivered wait for one.
const openTransactions = 20

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
	db.SetMaxOpenConns(openTransactions)
	ctx, cancel := context.WithTimeout(context.Background(), childTime)
	defer cancel()
	d := &doomed{orders: o, delivered: make(map[uuid.UUID]bool), standing: make(map[uuid.UUID]bool)}
	time.AfterFunc(childTime, d.giveUp)
	if err := o.Place.subscribe(ctx, newStepper(db, d.at), settings{concurrency: o.Delivered}); err != nil {
		return err
	}
	return errors.New("the subscription ended")
}

// doomed knows which events have come how far, and when the process is to die.
type doomed struct {
	orders
	mu                  sync.Mutex
	delivered, standing map[uuid.UUID]bool
	dying               bool
}

// at returns unless the event is to stand at the step, or the process is about to die.
func (d *doomed) at(step string, id uuid.UUID) {
	d.mu.Lock()
	if step == afterDelivery {
		d.delivered[id] = true
	}
	if step == d.Step {
		d.standing[id] = true
	}
	if !d.dying && len(d.delivered) >= d.Delivered && len(d.standing) >= d.Standing {
		d.dying = true
		fmt.Println(len(d.delivered))
		time.AfterFunc(grace, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	stay := d.dying || step == d.Step
	d.mu.Unlock()
	if stay {
		select {}
	}
}

func (d *doomed) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%d of %d events were delivered, %d of %d stand at the step\n",
		len(d.delivered), d.Delivered, len(d.standing), d.Standing)
	os.Exit(1)
}

// stepper is a consumer that tells its steps. A duplicate is committed, too.
type stepper struct {
	*outbox.Consumer
	at func(step string, id uuid.UUID)
}

func newStepper(db *outbox.DB, at func(step string, id uuid.UUID)) stepper {
	do := func(ctx context.Context, tx *outbox.Tx, e outbox.Envelope) error {
		at(afterDedup, e.ID)
		if err := tally(ctx, tx, e); err != nil {
			return err
		}
		at(afterEffect, e.ID)
		return nil
	}
	cfg := &outbox.ConsumerConfig{Timeout: childTime, Logger: quiet()}
	return stepper{orderevents.NewSalesReport(db, effect(do), &upcasts.Upcaster{}, cfg), at}
}

func (s stepper) Handle(ctx context.Context, e outbox.Envelope) (outbox.Handling, error) {
	s.at(afterDelivery, e.ID)
	handling, err := s.Consumer.Handle(ctx, e)
	if err == nil {
		s.at(afterCommit, e.ID)
	}
	return handling, err
}

// consumeAndDie runs a child process until it has died at its step, with all that it was
// to be delivered in its hands.
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
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // of this system
		t.Fatalf("the consumer did not die %s: %v", o.Step, err)
	}
	if got, want := strings.TrimSpace(string(out)), fmt.Sprint(o.Delivered); got != want {
		t.Fatalf("the consumer that died %s had %q events, want %s", o.Step, got, want)
	}
}
