package purge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/purge"
)

// The database goes away for an hour: few attempts, few lines in the log, and it
// goes on by itself.
func TestOutage(t *testing.T) {
	for _, flaps := range []bool{false, true} {
		t.Run(fmt.Sprintf("flaps %v", flaps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				begun := time.Now()
				f.before = func(_ context.Context, call string) error {
					if time.Since(begun) < time.Hour && (!flaps || call == "select events") && (!flaps || f.count(call)%2 == 0) {
						return errAway
					}
					return nil
				}
				var text strings.Builder
				p, err := purge.NewEvents(f.pool(t), f, keep, 0, &purge.Config{Logger: log(&text)})
				if err != nil {
					t.Fatal(err)
				}
				stop := start(t, p)
				wait(time.Hour)
				calls := 0
				for _, n := range f.calls {
					calls += n
				}
				if n := strings.Count(text.String(), "\n"); n > 2+7+7 || !strings.Contains(text.String(), "connection refused") {
					t.Errorf("%d lines in an hour:\n%s", n, &text)
				}
				if failed := p.Stats().Failures; failed < 30 || failed > 150 || calls > 500 {
					t.Errorf("%d passes failed, %d calls", failed, calls)
				}
				f.fill(10)
				wait(2 * time.Minute)
				if f.left() != 0 {
					t.Error("it did not go on")
				}
				stop()
				if !strings.Contains(text.String(), "works again") {
					t.Errorf("the end of the outage is not told:\n%s", &text)
				}
			})
		})
	}
}

// A first failure is soon tried again.
func TestFirstBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fill(10)
		f.before = func(_ context.Context, call string) error {
			if call == "commit" && f.count(call) == 0 {
				return errAway // the reply is lost, and nobody knows
			}
			return nil
		}
		p := eventsPurger(t, f, keep, 0, purge.Config{})
		stop := start(t, p)
		wait(4 * time.Second)
		stop()
		if s := p.Stats(); s.Passes != 2 || s.Failures != 1 || f.left() != 0 {
			t.Errorf("%+v, %d left", s, f.left())
		}
	})
}

// A locked row costs its batch a wait, and the others nothing.
func TestEventsLockedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fill(1000)
		f.before = func(_ context.Context, call string) error {
			if call == "delete events" && f.count(call)%3 == 1 {
				time.Sleep(5 * time.Second)
				return errLocked
			}
			return nil
		}
		var text strings.Builder
		p, err := purge.NewEvents(f.pool(t), f, keep, 0, &purge.Config{BatchSize: 100, Logger: log(&text)})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, p)
		wait(50 * time.Second)
		if s := p.Stats(); s.Events < 600 || s.Deferred < 3 || s.Failures != 0 {
			t.Errorf("after a pass: %+v", s)
		}
		wait(30 * time.Minute)
		stop()
		if f.left() != 0 || strings.Count(text.String(), "locked") > 3 {
			t.Errorf("%d left\n%s", f.left(), &text)
		}
	})
}

func TestPauseAndObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fill(1000)
		var passes []purge.Pass
		var failures []error
		p := eventsPurger(t, f, keep, 0, purge.Config{
			BatchSize: 100, Pause: 10 * time.Second,
			Observer: func(p purge.Pass, err error) { passes, failures = append(passes, p), append(failures, err) },
		})
		mustPurge(t, p)
		f.before = func(context.Context, string) error { return errAway }
		_, _ = p.Purge(context.Background())
		if len(passes) != 2 || passes[0].Events != 1000 || passes[0].Took < 100*time.Second || failures[0] != nil || !errors.Is(failures[1], errAway) {
			t.Errorf("%+v %v", passes, failures)
		}
	})
}

func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var text strings.Builder
		p, err := purge.NewEvents(f.pool(t), f, keep, 0, &purge.Config{
			Logger: log(&text), Observer: func(purge.Pass, error) { panic("secret") },
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, p)
		wait(9 * time.Minute)
		stop()
		if n := strings.Count(text.String(), "observer panicked"); p.Stats().Passes != 10 || n != 1 || strings.Contains(text.String(), "secret") {
			t.Errorf("%+v\n%s", p.Stats(), &text)
		}
	})
}

func TestConfig(t *testing.T) {
	f := newFake()
	db := f.pool(t)
	for _, c := range []struct {
		cfg  purge.Config
		want string
	}{
		{purge.Config{}, ""},
		{purge.Config{Interval: time.Hour}, ""},
		{purge.Config{Pause: time.Hour}, ""},
		{purge.Config{Interval: -1}, "Interval"},
		{purge.Config{BatchSize: -1}, "BatchSize"},
		{purge.Config{BatchSize: 5001}, "BatchSize"},
		{purge.Config{Pause: -1}, "Pause"},
		{purge.Config{Hold: -1}, "Hold"},
		{purge.Config{Hold: time.Minute, Interval: 31 * time.Second}, "hold"},
	} {
		_, err := purge.NewEvents(db, f, keep, 0, &c.cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	for name, make := range map[string]func() (*purge.Purger, error){
		"keep":    func() (*purge.Purger, error) { return purge.NewEvents(db, f, -1, 0, nil) },
		"lanes":   func() (*purge.Purger, error) { return purge.NewEvents(db, f, 1, -1, nil) },
		"queries": func() (*purge.Purger, error) { return purge.NewEvents(db, nil, 1, 0, nil) },
		"db":      func() (*purge.Purger, error) { return purge.NewDedup(nil, f, nil, nil) },
		"retain": func() (*purge.Purger, error) {
			return purge.NewDedup(db, f, map[string]time.Duration{"a": 0}, nil)
		},
	} {
		if p, err := make(); err == nil || p != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}
