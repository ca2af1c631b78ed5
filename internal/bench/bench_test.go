package main

import (
	"strings"
	"testing"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		sorted     []float64
		part, want float64
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{[]float64{7}, 0.99, 7},
		{nil, 0.5, 0},
	} {
		if got := percentile(c.sorted, c.part); got != c.want {
			t.Errorf("the %v of %d values is %v, want %v", c.part, len(c.sorted), got, c.want)
		}
	}
}

// Every bare loop finds its statements, with as many arguments as it gives.
func TestStatements(t *testing.T) {
	t.Chdir("../..")
	for _, k := range []*kind{aggregate, none, aggregateDelete, noneDelete} {
		s, err := readStatements(k)
		if err != nil {
			t.Error(err)
			continue
		}
		want := map[statement]int{s.markPublished: 2 + 2, s.selectDueEvents: 1, s.leaseEvents: 4 + 2}
		if k.byLane {
			want = map[statement]int{s.markPublished: 2, s.selectLaneEvents: 2 + 1, s.lockLanes: 2, s.addLanes: 0}
		}
		for statement, n := range want {
			if got := strings.Count(statement.with(2), "?"); got != n {
				t.Errorf("%s: %d arguments, want %d:\n%s", k.text, got, n, statement)
			}
		}
	}
}

func TestPoints(t *testing.T) {
	b := &bench{settings: settings{retained: 1_000_000}}
	seen := map[point]bool{}
	for _, p := range b.points() {
		if seen[p] {
			t.Errorf("%v is measured twice", p)
		}
		seen[p] = true
	}
	for _, p := range []point{
		{size: 512, relays: 1},
		{size: 512, relays: 0},
		{size: 512, relays: 4},
		{size: 16384, relays: 1},
		{size: 512, relays: 1, retained: 1_000_000},
		{size: 512, relays: 1, nats: true},
		{size: 512, relays: 1, nats: true, rate: 200},
		{size: 512, relays: 1, nats: true, rate: 1000},
		{size: 512, relays: 1, rate: 200},
		{size: 4096, relays: 1, nats: true, rate: 200},
	} {
		if !seen[p] {
			t.Errorf("%v, rate %d, is not measured", p, p.rate)
		}
	}
	b.full = true
	// By size and table: three numbers of relays with two publishers, each drained
	// and at three loads, and a bare loop.
	if got, want := len(b.points()), 3*2*(3*2*4+1); got != want {
		t.Errorf("%d points, want %d", got, want)
	}
}

func TestParse(t *testing.T) {
	s, err := parse(nil)
	if err != nil || strings.Join(s.sections, ",") != "drain,peer,latency,e2e,claim,hot" || len(s.flavors) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = parse([]string{"-short", "-rounds", "3", "-db", "mariadb", "-only", "hot,matrix"})
	if err != nil || s.events != 4000 || s.rounds != 3 || len(s.flavors) != 1 || len(s.sections) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range [][]string{{"-only", "drains"}, {"-db", "sqlite"}, {"-case", "("}, {"-events", "1"}, {"-rounds", "0"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
