package purge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/purge"
)

func TestRelays(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		keep time.Duration
		left string
	}{{0, "live young"}, {time.Hour, "live young"}, {30 * day, "live old young"}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.add(time.Now().Add(-60*day), time.Now().Add(-60*day))
			f.relays["live"] = time.Now().Add(time.Minute)
			f.relays["young"] = time.Now().Add(-6 * day)
			f.relays["old"] = time.Now().Add(-8 * day)
			for i := range 250 {
				f.relays[fmt.Sprint(i)] = time.Now().Add(-31 * day)
			}
			pass := mustPurge(t, eventsPurger(t, f, c.keep, 0, purge.Config{BatchSize: 100}))
			var left []string
			for owner := range f.relays {
				left = append(left, owner)
			}
			slices.Sort(left)
			if got := strings.Join(left, " "); got != c.left || pass.Relays != 253-int64(len(left)) {
				t.Errorf("keep %v: left %q, %+v", c.keep, got, pass)
			}
			if f.left() != 0 && c.keep > 0 || f.left() == 0 && c.keep == 0 {
				t.Errorf("keep %v: %d events are left", c.keep, f.left())
			}
		})
	}
}

func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes = 4
		f := newFake()
		due := time.Now().Add(-2 * keep)
		for i := range 3000 {
			f.addTo(0, due.Add(time.Duration(i)*time.Microsecond), due)
		}
		for lane := range uint16(lanes) {
			f.addTo(lane, due.Add(time.Second), due)
		}
		stop := start(t, eventsPurger(t, f, keep, lanes, purge.Config{BatchSize: 100}))
		wait(time.Second)
		stop()
		if n := f.left(); n != 0 {
			t.Errorf("%d events are left", n)
		}
		for lane := range uint16(lanes) {
			at := slices.IndexFunc(f.seen, func(s statement) bool { return s.call == "select events" && s.lane == lane })
			if at < 0 || at > 2*lanes {
				t.Errorf("lane %d is first read by statement %d", lane, at)
			}
		}
	})
}

// Four lanes are purged at once, and an error in one of them ends the pass.
func TestLanesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes = 8
		f := newFake()
		f.took = func(int) time.Duration { return time.Second }
		fill := func() {
			for lane := range uint16(lanes) {
				f.addTo(lane, time.Now().Add(-2*keep), time.Now().Add(-2*keep))
			}
		}
		fill()
		p := eventsPurger(t, f, keep, lanes, purge.Config{})
		if pass := mustPurge(t, p); pass.Events != lanes || pass.Took != 2*2*time.Second {
			t.Errorf("%+v", pass)
		}
		fill()
		f.forget()
		f.before = func(_ context.Context, call string) error {
			if call == "delete events" && f.count(call) == lanes+2 {
				return errAway
			}
			return nil
		}
		pass, err := p.Purge(context.Background())
		if !errors.Is(err, errAway) || pass.Events != int64(lanes-f.left()) || len(f.seen) > 2*lanes-2 {
			t.Errorf("%+v, %v, %d statements", pass, err, len(f.seen))
		}
	})
}
