package record

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Every pair is either valid or has a reason why not.
func TestValidity(t *testing.T) {
	valid, on := 0, map[string]int{}
	for _, p := range fault.Points {
		for _, outcome := range Outcomes {
			ok, why := Valid(p, outcome)
			if ok == (why != "") {
				t.Errorf("%s × %s: %v, %q", p, outcome, ok, why)
			}
			if ok {
				valid++
				on[outcome]++
			}
		}
	}
	if valid != 163 {
		t.Errorf("%d pairs of %d are valid, want 163: %v", valid, len(fault.Points)*len(Outcomes), on)
	}
	if ok, why := Valid("W1", "meteor"); ok || why == "" {
		t.Error("an outcome that isn't in the table is valid")
	}
}

// The points of the required injections have at least the outcome that kills.
func TestRequiredAreValid(t *testing.T) {
	for _, r := range RequiredInjections() {
		if ok, why := Valid(r.Point, OutcomeKill); !ok {
			t.Errorf("%s: %s", r.ID, why)
		}
		if got, ok := RequiredInjection(r.ID); !ok || got.Title != r.Title {
			t.Errorf("%s isn't found by its id", r.ID)
		}
	}
	if _, ok := RequiredInjection("none"); ok {
		t.Error("an injection is found that isn't there")
	}
}

func TestCoverage(t *testing.T) {
	c := NewCoverage([]string{"mysql", "mariadb"}, []string{"nats", "rabbitmq", "kafka"})
	all := len(c.Cells())
	if len(c.Missing(1)) != all {
		t.Error("an empty table misses nothing")
	}
	hit := Cell{"R7", OutcomeKill, "mysql", "kafka"}
	writer := Cell{"W5", OutcomeCutReply, "mariadb", ""}
	for _, cell := range []Cell{hit, hit, {"W5", OutcomeCutReply, "mariadb", "nats"}} {
		if err := c.Add(cell, 1); err != nil {
			t.Error(err)
		}
	}
	if c.Hits(hit) != 2 || c.Hits(writer) != 1 || len(c.Missing(1)) != all-2 || len(c.Missing(2)) != all-1 {
		t.Errorf("hits %d and %d, %d missing of %d", c.Hits(hit), c.Hits(writer), len(c.Missing(1)), all)
	}
	for _, bad := range []Cell{
		{"W4", OutcomeCutReply, "mysql", ""}, {"W1", Outcome1020, "mysql", ""}, {"R7", OutcomeKill, "oracle", "nats"},
		{"R7", OutcomeKill, "mysql", ""}, {"X1", OutcomeKill, "mysql", ""},
	} {
		if err := c.Add(bad, 1); err == nil {
			t.Errorf("%v is counted", bad)
		}
	}
	s := c.Summary(2)
	if s.Cells != all || s.Hits != 3 || s.Empty != all-1 || slices.Contains(s.Missing, hit.String()) || !slices.Contains(s.Missing, writer.String()) {
		t.Errorf("%+v", s)
	}

	var out bytes.Buffer
	if err := c.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != all+1 {
		t.Fatalf("%d rows, want %d (%v)", len(rows), all+1, err)
	}
	if !slices.ContainsFunc(rows, func(r []string) bool { return slices.Equal(r, []string{"R7", "kill", "mysql", "kafka", "2"}) }) {
		t.Error("the CSV lacks the hits")
	}
	lines := strings.Split(strings.TrimSpace(c.Markdown()), "\n")
	if len(lines) != 2+len(fault.Points) || !strings.HasPrefix(lines[2], "| W1 | 0 |") || !strings.Contains(lines[5], "| – |") {
		t.Errorf("%s", c.Markdown())
	}
}
