package fault

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse("R7:kill, C3@2:delay=5s,W5:error,R11@10:stop")
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Point: RelayConfirmed, Nth: 1, Action: Kill},
		{Point: ConsumerEffect, Nth: 2, Action: Delay, Delay: 5 * time.Second},
		{Point: WriterReply, Nth: 1, Action: Error},
		{Point: RelayOverdue, Nth: 10, Action: Stop},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"R7", "R7:", "R7:die", "R7@0:kill", "R7@x:kill", "R12:kill", "W6:kill", "R7:kill=1", "R7:delay", "R7:delay=-1s"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []Point
		steps, err := Parse("C2@2:error,C3:delay=1m")
		if err != nil {
			t.Fatal(err)
		}
		defer Set(Script(steps, func(s Step) { began = append(began, s.Point) }))()
		ctx := t.Context()
		if At(ctx, ConsumerDedup) != nil || !errors.Is(At(ctx, ConsumerDedup), ErrInjected) || At(ctx, ConsumerDedup) != nil {
			t.Error("want an error the second time and no other")
		}
		start := time.Now()
		if At(ctx, ConsumerEffect) != nil || time.Since(start) != time.Minute {
			t.Errorf("a delay of %v", time.Since(start))
		}
		if diff := cmp.Diff([]Point{ConsumerDedup, ConsumerEffect}, began); diff != "" {
			t.Error(diff)
		}
	})
}

func TestScopes(t *testing.T) {
	ctx := context.Background()
	if In(ctx, Claim) != ctx || At(ctx, WriterBegun) != nil {
		t.Error("without a hook something is done")
	}
	var passed []Point
	restore := Set(func(_ context.Context, p Point) error { passed = append(passed, p); return nil })
	for _, s := range []Scope{Writer, Claim, Mark, Consumer, Other} {
		scoped := In(ctx, s)
		for _, moment := range []func(context.Context) error{Begun, Unsent, Reply, Committed} {
			if err := moment(scoped); err != nil {
				t.Error(err)
			}
		}
	}
	restore()
	_ = Unsent(ctx)
	want := []Point{
		WriterBegun, WriterCommit, WriterReply, WriterCommitted, RelayCommit, RelayReply, RelayMark, RelayMarkReply,
		ConsumerCommit, ConsumerReply,
	}
	if diff := cmp.Diff(want, passed); diff != "" {
		t.Error(diff)
	}
}

func TestJitter(t *testing.T) {
	restore := Steady()
	for range 20 {
		if d := Jitter(time.Minute); d != 30*time.Second {
			t.Fatalf("%v while it is steady", d)
		}
	}
	restore()
	seen := map[time.Duration]bool{}
	for range 20 {
		d := Jitter(time.Minute)
		if d < 0 || d > time.Minute {
			t.Errorf("%v of a minute", d)
		}
		seen[d] = true
	}
	if len(seen) < 2 {
		t.Error("the same each time")
	}
}
