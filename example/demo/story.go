package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// cast is who plays.
type cast struct {
	stage     *stage
	processes *processes
	out       *printer
	programs  string // the folder of the example's binaries

	api, consumers *process
	relays         []*process // that live
	relayVictim    *victim
	consumerVictim *victim
	seen           *logEvents
}

// victim is a process that kills itself, and what it said before.
type victim struct {
	*process
	words atomic.Pointer[lastWords]
}

// logEvents are what the demo counts in the logs of the example's programs.
type logEvents struct {
	foreignKeyErrors atomic.Int64                              // error 1452, in the planner
	stats            map[string]*atomic.Pointer[consumerStats] // by consumer, at its clean stop
}

type consumerStats outbox.ConsumerStats

// tell plays the story from the first process to the last, and returns what there is to judge.
func tell(ctx context.Context, opts options, s *stage, p *processes, out *printer) (*facts, error) {
	errands, err := planErrands(opts.orders)
	if err != nil {
		return nil, err
	}
	out.startClock()
	out.step("The story")
	c := &cast{stage: s, processes: p, out: out, programs: opts.programs(), seen: newLogEvents()}
	before, err := s.countOld(ctx)
	if err != nil {
		return nil, err
	}
	url, err := c.startAll(ctx)
	if err != nil {
		return nil, err
	}
	out.event("the api and two processes of consumers are running; one of those, planner-2, will be killed")

	showing, stopShowing := context.WithCancel(ctx)
	defer stopShowing()
	l := newLoad(url)
	go c.show(showing, l)

	found := &facts{answers: l.answers, old: oldRows{before: before}}
	if err := c.play(ctx, l, errands, found); err != nil {
		return nil, err
	}
	if found.missing, err = c.drain(ctx); err != nil {
		return nil, err
	}
	if err := c.redrive(ctx, found); err != nil {
		return nil, err
	}
	stopShowing()
	if len(found.missing) == 0 {
		out.event("every event is published and every message acknowledged; stopping the processes")
	}
	return found, c.finish(ctx, found)
}

func newLogEvents() *logEvents {
	return &logEvents{stats: map[string]*atomic.Pointer[consumerStats]{
		orderevents.ConsumerNameNotificationPlanner: {},
		orderevents.ConsumerNameSalesReport:         {},
	}}
}

// startAll starts all but the relays and returns the api's address.
func (c *cast) startAll(ctx context.Context) (url string, err error) {
	addr, err := freeAddr()
	if err != nil {
		return "", err
	}
	if c.api, err = c.start("api", "api", "ORDERS_LISTEN="+addr); err != nil {
		return "", err
	}
	if c.consumers, err = c.start("consumers-1", "consumers"); err != nil {
		return "", err
	}
	if c.consumerVictim, err = c.startVictim("planner-2", consumerVictim); err != nil {
		return "", err
	}
	url = "http://" + addr
	return url, waitForAPI(ctx, url)
}

func (c *cast) start(name, program string, env ...string) (*process, error) {
	return c.processes.start(name, filepath.Join(c.programs, program), append(env, c.env()...),
		func(_ *process, line string) { c.seen.note(line) })
}

func (c *cast) startRelay(name string) error {
	relay, err := c.start(name, "relay")
	c.relays = append(c.relays, relay)
	return err
}

func (c *cast) startVictim(name, role string) (*victim, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &victim{}
	v.process, err = c.processes.start(name, self, append(c.env(), roleVar+"="+role), func(p *process, line string) {
		var words lastWords
		if json.Unmarshal([]byte(line), &words) == nil && words.Victim == role {
			v.words.Store(&words)
			p.mayEnd.Store(true)
			return
		}
		c.seen.note(line)
	})
	return v, err
}

func (c *cast) env() []string {
	return []string{"ORDERS_DSN=" + c.stage.dsn, "ORDERS_BROKER_URL=" + c.stage.broker.url()}
}

// note counts a line of a log.
func (l *logEvents) note(line string) {
	var entry struct {
		Msg, Consumer, Error                          string
		Attempts, Applied, Duplicates, Parked, Errors int64
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return
	}
	switch entry.Msg {
	case "the event was not handled":
		if entry.Consumer == orderevents.ConsumerNameNotificationPlanner && strings.Contains(entry.Error, "error 1452") {
			l.foreignKeyErrors.Add(1)
		}
	case "consumer stopped":
		if stats := l.stats[entry.Consumer]; stats != nil {
			stats.Store(&consumerStats{
				Attempts: entry.Attempts, Applied: entry.Applied, Duplicates: entry.Duplicates,
				Parked: entry.Parked, Errors: entry.Errors,
			})
		}
	}
}

// freeAddr is an address that is free now.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func waitForAPI(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, fmt.Errorf("the api did not answer within 20 s"))
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/orders/0", nil)
		if err != nil {
			return err
		}
		req.Header.Set("X-Tenant-ID", "1")
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close() // nobody reads it
			if res.StatusCode != http.StatusNotFound {
				return fmt.Errorf("the api answered %s to the question for an order that isn't there", res.Status)
			}
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
