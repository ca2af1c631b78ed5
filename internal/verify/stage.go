package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// stage is where one experiment runs.
type stage struct {
	Experiment
	choice
	db     *database
	broker brokerServer
	place  place
	kills  *round // for the peer's end; nil for none
	inject *injection

	procs []*process // all that were started
	now   map[string]*process
	count map[string]int // started so far, by role

	mu      sync.Mutex
	entries []entry
	late    error // what drain waited for in vain
	faults  []history.Fault
	answers []history.Answer
}

// entry is a line of a child.
type entry struct {
	actor string
	line
	at time.Time
}

// run does the experiment but for its judgement. What was not done in time is judged, too.
func (s *stage) run(ctx context.Context) (history.History, error) {
	err := s.perform(ctx)
	if stopErr := s.stopAll(); err == nil {
		err = stopErr
	}
	if err != nil {
		return history.History{}, err
	}
	if err := s.lookUp(ctx, true); err != nil {
		return history.History{}, err
	}
	h, err := s.collect(ctx)
	if err == nil {
		h.Leaks, err = s.leaks(ctx)
	}
	return h, err
}

func (s *stage) perform(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.inject.await(ctx, s); err != nil {
		return fmt.Errorf("%w: %w", errNotHit, err)
	}
	s.happened()
	if err := s.inject.act(ctx, s); err != nil {
		return err
	}
	if err := s.startOthers(ctx); err != nil {
		return err
	}
	s.late = s.drain(ctx)
	return ctx.Err()
}

// errNotHit says that the planned fault didn't happen.
var errNotHit = errors.New("the fault did not happen")

// begin starts the victim, and what has to be there before it can fail. Others that come early
// come behind the writer, so that the victim has had a chance of something to do.
func (s *stage) begin(ctx context.Context) error {
	roles := []string{roleConsumer, roleRelay, roleWriter}
	if s.Point == fault.WriterCommitted {
		roles = []string{roleConsumer, roleWriter} // nothing may be claimed yet
	}
	for _, role := range roles {
		if err := s.startRole(ctx, role, true); err != nil {
			return err
		}
	}
	if !s.early {
		return nil
	}
	for _, role := range roles {
		if err := s.startRest(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// startOthers starts what isn't there yet.
func (s *stage) startOthers(ctx context.Context) error {
	for _, role := range []string{roleConsumer, roleRelay, roleWriter} {
		if err := s.startRest(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startRest(ctx context.Context, role string) error {
	want := map[string]int{roleConsumer: s.consumers, roleRelay: s.relays, roleWriter: 1}[role]
	for s.count[role] < want {
		if err := s.startRole(ctx, role, false); err != nil {
			return err
		}
	}
	return nil
}

// startRole starts one of a role; the first one of the experiment's is the victim.
func (s *stage) startRole(ctx context.Context, role string, first bool) error {
	s.count[role]++
	name := fmt.Sprintf("%s-%d", role, s.count[role])
	o := orders{Role: role, DSN: s.db.dsn(s.db.server.Addr(), name), Place: s.place}
	script := ""
	if role == s.role() {
		script = s.inject.others
	}
	if first && role == s.role() {
		script = s.inject.script
		if s.inject.proxy != nil {
			o.DSN = s.db.dsn(s.inject.proxy.Addr(), name)
		}
		if s.inject.wire != nil {
			o.Place = s.place.via(s.inject.wire.addr())
		}
	}
	if role == roleWriter {
		o.Requests, o.Pace = s.requests, s.pace
	}
	p, err := start(name, o, script, func(l line) { s.note(name, l) })
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	s.now[name] = p
	return p.await(ctx, "ready", p.ready, startBound)
}

func (s *stage) note(actor string, l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entry{actor, l, time.Now()})
}

// victim is the process that the fault is for.
func (s *stage) victim() *process { return s.now[s.role()+"-1"] }

// writer is the one that is there.
func (s *stage) writer() *process {
	return s.now[fmt.Sprintf("%s-%d", roleWriter, s.count[roleWriter])]
}

// replaceVictim starts another of the victim's role after its death.
func (s *stage) replaceVictim(ctx context.Context) error {
	victim := s.victim()
	select {
	case <-victim.proc.Done():
	case <-time.After(stopBound):
		return fmt.Errorf("%s did not die", victim.name)
	}
	if err := victim.proc.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		return fmt.Errorf("%s was to be killed and ended so: %w%s", victim.name, err, victim.log.tail())
	}
	delete(s.now, victim.name)
	return s.startRole(ctx, s.role(), false)
}

// happened notes the fault, and what lookups say meanwhile.
func (s *stage) happened() {
	s.mu.Lock()
	s.faults = append(s.faults, history.Fault{Point: string(s.Point), Outcome: s.Outcome})
	s.mu.Unlock()
	if s.Outcome == record.OutcomePeerKilled {
		return // there may be nobody to ask
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.lookUp(ctx, false) // one that isn't answered says nothing
}

func (s *stage) lookUp(ctx context.Context, final bool) error {
	for _, r := range s.requests {
		state, err := orderevents.LookupEvent(ctx, s.db.db, r.EventID)
		if err != nil && !isNoRows(err) {
			return fmt.Errorf("look up an event: %w", err)
		}
		s.mu.Lock()
		s.answers = append(s.answers, history.Answer{EventID: r.EventID, State: state.State, Final: final})
		s.mu.Unlock()
	}
	return nil
}

// stopAll asks all that are alive to end, and reports those that ended badly.
func (s *stage) stopAll() error {
	errs := make([]error, 0, len(s.now))
	var mu sync.Mutex
	var stopping sync.WaitGroup
	for _, p := range s.now {
		stopping.Go(func() {
			err := p.stop()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// abandon ends everything at once.
func (s *stage) abandon() {
	for _, p := range s.procs {
		p.proc.Kill()
	}
	s.inject.close()
}

// leaks are what the children left. A connection's end takes the server a moment.
func (s *stage) leaks(ctx context.Context) (*history.Leaks, error) {
	var l history.Leaks
	for _, e := range s.entries {
		if e.Kind == lineLeft {
			l.Goroutines += e.N
		}
	}
	s.inject.close()
	for range 100 {
		var err error
		if l.Connections, l.Transactions, err = s.db.sessions(ctx); err != nil || l.Connections == 0 {
			return &l, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	return &l, nil
}
