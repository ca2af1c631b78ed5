package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// The steps of a relay's loop at which a child process of the test ends, or stops.
var relaySteps = []string{"before claim", "after claim", "before publish", "after confirm", "before mark", "after mark"}

const (
	childDSN   = "OUTBOXGEN_TEST_CHILD_DSN"
	childKind  = "OUTBOXGEN_TEST_CHILD_KIND"
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
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == os.Getenv(childKind) })
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
		stepStore{kinds[i].newStore(db), at},
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

func prepareBroker(t *testing.T, db *outbox.DB) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE broker (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL)")
}

// stepStore tells the steps of a store's work.
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

// stepPublisher tells the steps of a publisher's work.
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

func startChild(t *testing.T, k kind, dsn, step, fault string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// A stopped child may be in the middle of a transaction: the server ends it before long.
	cmd.Env = append(os.Environ(), childDSN+"="+dsn+"&wait_timeout=3", childKind+"="+k.name, childStep+"="+step, childFault+"="+fault)
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
func drain(t *testing.T, k kind, db *outbox.DB) {
	t.Helper()
	relay, err := outbox.NewRelay(k.newStore(db), tableBroker{db}, &outbox.RelayConfig{
		BatchSize: 10, PollInterval: 20 * time.Millisecond, // and so much time that none of its own publishes is repeated
		Logger: slog.New(slog.DiscardHandler),
	})
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
