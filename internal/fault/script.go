package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Action is what happens at a point.
type Action string

// The actions.
const (
	Kill  Action = "kill"  // SIGKILL to the own process
	Stop  Action = "stop"  // SIGSTOP to the own process: who started it sends SIGCONT
	Error Action = "error" // ErrInjected
	Delay Action = "delay"
)

// ErrInjected is what Error gives. It is no error of a database's: at a …Reply point the
// outcome is unknown.
var ErrInjected = errors.New("injected by a fault point")

// Step is one action at one point.
type Step struct {
	Point  Point
	Nth    int // the first time is 1
	Action Action
	Delay  time.Duration
}

// EnvVar has the script of a child process, as [Parse] reads it.
const EnvVar = "OUTBOXGEN_FAULTS"

// Parse reads a script: "R7:kill", the third time "R7@3:kill", with a time "C3:delay=5s", several
// of them with commas.
func Parse(text string) ([]Step, error) {
	var script []Step
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		s, err := parseStep(part)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		script = append(script, s)
	}
	return script, nil
}

func parseStep(text string) (Step, error) {
	place, action, ok := strings.Cut(text, ":")
	if !ok {
		return Step{}, errors.New("want POINT:ACTION")
	}
	s := Step{Nth: 1}
	place, nth, counted := strings.Cut(place, "@")
	if counted {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			return Step{}, errors.New("want a number above 0 behind @")
		}
		s.Nth = n
	}
	for _, p := range Points {
		if string(p) == place && !p.OnWire() {
			s.Point = p
		}
	}
	if s.Point == "" {
		return Step{}, errors.New("there is no such point")
	}
	name, arg, hasArg := strings.Cut(action, "=")
	s.Action = Action(name)
	switch s.Action {
	case Kill, Stop, Error:
		if hasArg {
			return Step{}, fmt.Errorf("%s takes no argument", name)
		}
	case Delay:
		var err error
		if s.Delay, err = time.ParseDuration(arg); err != nil || s.Delay <= 0 {
			return Step{}, errors.New("want a time behind delay=")
		}
	default:
		return Step{}, errors.New("want kill, stop, error or delay=TIME")
	}
	return s, nil
}

// Script makes a hook of steps. done is called when a step begins, before its action; it may be nil.
func Script(steps []Step, done func(Step)) Hook {
	var mu sync.Mutex
	passed := make(map[Point]int)
	return func(ctx context.Context, p Point) error {
		mu.Lock()
		passed[p]++
		var now []Step
		for _, s := range steps {
			if s.Point == p && s.Nth == passed[p] {
				now = append(now, s)
			}
		}
		mu.Unlock()
		for _, s := range now {
			if done != nil {
				done(s)
			}
			if err := s.run(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s Step) run(ctx context.Context) error {
	switch s.Action {
	case Error:
		return ErrInjected
	case Delay:
		t := time.NewTimer(s.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done(): // what comes next will see it
		}
		return nil
	default:
		return signalSelf(s.Action)
	}
}
