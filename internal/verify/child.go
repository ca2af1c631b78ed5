package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// childEnv has a child's orders, and makes a process one.
const childEnv = "OUTBOXGEN_VERIFY_CHILD"

// The roles of children.
const (
	roleWriter   = "writer"
	roleRelay    = "relay"
	roleConsumer = "consumer"
	roleNATS     = "nats"
)

// orders are what a child is told.
type orders struct {
	Role     string
	DSN      string
	Place    place
	Requests []request     // a writer's
	Pace     time.Duration // of a writer: before each request but the first
	Dir      string        // a NATS server's
	Port     int
}

// line is what a child tells: a line of JSON on its standard output.
type line struct {
	Kind      string      `json:"kind"`
	Events    []uuid.UUID `json:"events,omitempty"`
	Request   string      `json:"request,omitempty"`
	Results   []string    `json:"results,omitempty"`
	Result    string      `json:"result,omitempty"`
	Point     fault.Point `json:"point,omitempty"`
	N         int         `json:"n,omitempty"`
	Yes       bool        `json:"yes,omitempty"`
	Aggregate string      `json:"aggregate,omitempty"`
	Version   int64       `json:"version,omitempty"`
	Type      string      `json:"type,omitempty"`
	Payload   []byte      `json:"payload,omitempty"`
}

// The kinds of lines.
const (
	lineReady      = "ready"
	lineHit        = "hit"        // Point, Result: a fault begins
	linePassed     = "passed"     // Point: a stop is over
	lineTry        = "try"        // Request, Events
	lineWrite      = "write"      // Events, Type, Aggregate, Version, Payload
	lineTold       = "told"       // Request, Result
	lineReconciled = "reconciled" // Request, Yes
	lineWritten    = "written"    // the writer is done
	lineHanded     = "handed"     // N, Events: a call of the publisher
	lineAnswered   = "answered"   // N, Results
	lineLost       = "lost"       // Events: whose lease was lost before the mark
	lineTrouble    = "trouble"    // a settlement or a renewal failed
	lineDelivered  = "delivered"  // N, Events
	lineHandled    = "handled"    // N, Result, Yes: the dedup row is there
	lineLeft       = "left"       // N goroutines at the end
)

// child is a child's own side.
type child struct {
	orders
	log *slog.Logger

	mu  sync.Mutex
	out *json.Encoder
	n   int
}

// RunChild is a child's whole life. It returns false at once in a process that is none.
func RunChild() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	c := &child{out: json.NewEncoder(os.Stdout), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	err := json.Unmarshal([]byte(text), &c.orders)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (c *child) tell(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.Encode(l) != nil { // the parent is gone
		os.Exit(1)
	}
}

// number is new with each call.
func (c *child) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *child) run() error {
	slog.SetDefault(c.log)
	// Never taken back: a signal that comes at the very end must not look like a death.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
	}()
	if c.Role == roleNATS {
		return c.serveNATS(ctx)
	}
	steps, err := fault.Parse(os.Getenv(fault.EnvVar))
	if err != nil {
		return err
	}
	if len(steps) > 0 {
		fault.Set(c.hook(steps))
	}
	before := runtime.NumGoroutine()
	if err := c.work(ctx); err != nil {
		return err
	}
	c.tell(line{Kind: lineLeft, N: max(0, leftGoroutines(before)-before)})
	return nil
}

func (c *child) work(ctx context.Context) error {
	db, err := mysqldb.Open(c.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	switch c.Role {
	case roleWriter:
		return c.write(ctx, db)
	case roleRelay:
		return c.relay(ctx, db)
	case roleConsumer:
		return c.consume(ctx, db)
	default:
		return fmt.Errorf("no such role as %q", c.Role)
	}
}

// hook is the script's, which tells of each fault before it happens and of a stop's end.
func (c *child) hook(steps []fault.Step) fault.Hook {
	script := fault.Script(steps, func(s fault.Step) {
		c.tell(line{Kind: lineHit, Point: s.Point, Result: string(s.Action)})
	})
	stops := map[fault.Point]bool{}
	for _, s := range steps {
		stops[s.Point] = s.Action == fault.Stop
	}
	return func(ctx context.Context, p fault.Point) error {
		err := script(ctx, p)
		if stops[p] {
			c.tell(line{Kind: linePassed, Point: p})
		}
		return err
	}
}

// leftGoroutines gives those that are ending a moment to do so.
func leftGoroutines(want int) int {
	for range 100 {
		if runtime.NumGoroutine() <= want {
			break
		}
		time.Sleep(10 * time.Millisecond) // nothing tells of a goroutine's end
	}
	return runtime.NumGoroutine()
}

// endedWell takes the end of ctx for a good one.
func endedWell(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func eventID(e outbox.Envelope) []uuid.UUID { return []uuid.UUID{e.ID} }
