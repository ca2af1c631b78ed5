package integration

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The steps of a relay's loop at which a child process of the test ends, or stops.
var relaySteps = []string{"before claim", "after claim", "before publish", "after confirm", "before mark", "after mark"}

const (
	childDSN   = "OUTBOXGEN_TEST_CHILD_DSN"
	childStep  = "OUTBOXGEN_TEST_CHILD_STEP"
	childFault = "OUTBOXGEN_TEST_CHILD_FAULT" // "kill" or "stop"

	childLease = 3 * time.Second
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		if err := runChild(dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild runs a relay whose broker is a table, as a process of its own.
func runChild(dsn string) error {
	db, err := mysqldb.Open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	at := func(step string) {
		if step != os.Getenv(childStep) {
			return
		}
		if os.Getenv(childFault) == "kill" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		fmt.Println("at step")                      // the test sends SIGSTOP, then SIGCONT
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // and lets go
	}
	relay, err := outbox.NewRelay(
		stepStore{orderevents.NewStore(db), at},
		stepPublisher{tableBroker{db}, at},
		childRelayConfig(),
	)
	if err != nil {
		return err
	}
	err = relay.Run(ctx)
	s := relay.Stats()
	fmt.Printf("published %d lost %d\n", s.Published, s.Lost)
	return err
}

func childRelayConfig() *outbox.RelayConfig {
	return &outbox.RelayConfig{
		BatchSize: 10, Lease: childLease, PublishTimeout: time.Second, PollInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// tableBroker keeps what it confirmed in a table, by a connection of its own.
type tableBroker struct{ db *outbox.DB }

func (b tableBroker) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if _, err := b.db.ExecContext(ctx, "INSERT INTO broker (event_id) VALUES (?)", m.ID); err != nil {
			results[i] = outbox.PublishUnknown(err)
		}
	}
	return results
}

type stepStore struct {
	outbox.Store
	at func(step string)
}

func (s stepStore) Claim(ctx context.Context, c outbox.ClaimRequest) (*outbox.Batch, error) {
	s.at("before claim")
	b, err := s.Store.Claim(ctx, c)
	if err == nil && len(b.Events) > 0 {
		s.at("after claim")
	}
	return b, err
}

func (s stepStore) Settle(ctx context.Context, b *outbox.Batch, o []outbox.EventOutcome) (outbox.Settlement, error) {
	s.at("before mark")
	result, err := s.Store.Settle(ctx, b, o)
	s.at("after mark")
	return result, err
}

type stepPublisher struct {
	outbox.Publisher
	at func(step string)
}

func (p stepPublisher) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	p.at("before publish")
	results := p.Publisher.Publish(ctx, messages)
	p.at("after confirm")
	return results
}

// child is a relay in a process of its own.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, dsn, step, fault string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// A stopped child may be in the middle of a claim: the server ends it before long.
	cmd.Env = append(os.Environ(), childDSN+"="+dsn+"&wait_timeout=3", childStep+"="+step, childFault+"="+fault)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
}

func (c *child) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// drain runs a relay until every event is published.
func drain(t *testing.T, db *outbox.DB) {
	t.Helper()
	relay, err := outbox.NewRelay(orderevents.NewStore(db), tableBroker{db}, childRelayConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	for ctx.Err() == nil && count(t, db, "outbox_event WHERE status <> 2") > 0 {
		time.Sleep(20 * time.Millisecond) // what is waited for is a row
	}
	if ctx.Err() != nil {
		t.Error("not all events were published in a minute")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func prepareBroker(t *testing.T, db *outbox.DB) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE broker (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
}

func TestKilledRelayLosesNothing(t *testing.T) {
	const events = 25
	for _, step := range relaySteps {
		t.Run(step, func(t *testing.T) {
			each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
				prepareBroker(t, db)
				ids := writeEvents(t, db, events)
				c := startChild(t, server.DSN, step, "kill")
				err := c.cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the relay was not killed at its step: %v", err)
				}
				checkLeases(t, db, ids, c.cmd.Process.Pid, step)
				drain(t, db)
				repeats := 0
				for _, id := range ids {
					n := count(t, db, "broker WHERE event_id = ?", id)
					if n == 0 {
						t.Errorf("event %s was lost", id)
					}
					repeats += max(0, n-1)
				}
				// After the first batch's mark the second may be confirmed already: the steps overlap.
				if repeats > 0 && step != "after confirm" && step != "before mark" && step != "after mark" {
					t.Errorf("%d repeats; none is due when a relay dies %s", repeats, step)
				}
				if repeats == 0 && step == "after confirm" {
					t.Error("the fault did not happen: nothing was published twice")
				}
			})
		})
	}
}

// checkLeases looks each event up while nobody works on it.
func checkLeases(t *testing.T, db *outbox.DB, ids []uuid.UUID, pid int, step string) {
	t.Helper()
	states := map[string]int{}
	for _, id := range ids {
		s := state(t, db, id)
		states[s.State]++
		if s.State != "PUBLISHING" {
			continue
		}
		if uuid.Validate(s.LeaseOwner) != nil || s.LeasePID != int64(pid) || s.LeaseHost == "" || s.LeaseUntil.IsZero() {
			t.Errorf("%s: the lease of %s can't be read: %+v", step, id, s)
		}
	}
	leased := states["PUBLISHING"] > 0
	if want := step != "before claim"; leased != want {
		t.Errorf("%s: states %v", step, states)
	}
	if marked := states["PUBLISHED"] > 0; marked != (step == "after mark") {
		t.Errorf("%s: states %v", step, states)
	}
}

// A relay that is stopped past its lease, between the confirm and the mark, must
// change nothing when it comes back.
func TestRelayThatLostItsLeaseMarksNothing(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		prepareBroker(t, db)
		ids := writeEvents(t, db, 10)
		c := startChild(t, server.DSN, "after confirm", "stop")
		if line, err := c.out.ReadString('\n'); err != nil || line != "at step\n" {
			t.Fatalf("%q, %v", line, err)
		}
		c.signal(t, syscall.SIGSTOP)
		drain(t, db) // waits for the lease to end, by the database's clock
		before := make([]outbox.EventState, len(ids))
		for i, id := range ids {
			before[i] = state(t, db, id)
			if before[i].LeasePID == int64(c.cmd.Process.Pid) {
				t.Errorf("event %s was marked by the stopped relay", id)
			}
		}
		c.signal(t, syscall.SIGCONT)
		if _, err := c.in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		c.signal(t, syscall.SIGTERM)
		rest, _ := io.ReadAll(c.out)
		if err := c.cmd.Wait(); err != nil {
			t.Fatalf("the relay did not stop cleanly: %v", err)
		}
		if got := strings.TrimSpace(string(rest)); got != "published 0 lost 10" {
			t.Errorf("the late relay reports %q, want 10 lost leases", got)
		}
		for i, id := range ids {
			if after := state(t, db, id); after != before[i] {
				t.Errorf("event %s was changed by the late mark:\n%+v\n%+v", id, before[i], after)
			}
		}
	})
}

// No transaction is open while a relay publishes.
func TestNoTransactionDuringPublish(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		prepareBroker(t, db)
		writeEvents(t, db, 10)
		checked := make(chan struct{})
		publisher := publisherFunc(func(m []outbox.Envelope) []error {
			var open int
			time.Sleep(150 * time.Millisecond) // see waitForLockWait
			err := db.QueryRowContext(context.WithoutCancel(t.Context()), `SELECT COUNT(*) FROM information_schema.innodb_trx t
				JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()`).Scan(&open)
			if err != nil && !errors.Is(err, sql.ErrNoRows) || open != 0 {
				t.Errorf("%d transactions are open during the publish (%v)", open, err)
			}
			close(checked)
			return make([]error, len(m))
		})
		relay, err := outbox.NewRelay(orderevents.NewStore(open(t, server.DSN)), publisher, childRelayConfig())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		<-checked
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type publisherFunc func(m []outbox.Envelope) []error

func (f publisherFunc) Publish(_ context.Context, m []outbox.Envelope) []error { return f(m) }
