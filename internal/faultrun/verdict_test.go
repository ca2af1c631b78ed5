package main

import (
	"testing"

	"github.com/google/uuid"
)

// What the log's reader takes for an order, and what it doesn't.
func TestReadLog(t *testing.T) {
	type seen struct {
		version int64
		answer  answer
	}
	for _, test := range []struct {
		name    string
		log     []seen
		ordered bool
		repeats int
		after   int
	}{
		{"in order", []seen{{1, confirmed}, {2, confirmed}, {3, confirmed}}, true, 0, 0},
		{"repeated in between", []seen{{1, confirmed}, {2, confirmed}, {1, confirmed}, {3, confirmed}}, true, 1, 0},
		{"a lost reply, then repeated", []seen{{1, lost}, {1, confirmed}, {2, confirmed}}, true, 1, 0},
		{"swapped", []seen{{2, confirmed}, {1, confirmed}}, false, 0, 0},
		{"one is missing", []seen{{1, confirmed}, {3, confirmed}}, false, 0, 0},
		{"after a rejected one", []seen{{1, rejected}, {2, confirmed}}, true, 0, 0},
		{"rejected again, late", []seen{{1, rejected}, {2, confirmed}, {1, rejected}}, true, 0, 1},
		{"failed and tried again", []seen{{1, failed}, {1, confirmed}, {2, confirmed}}, true, 0, 0},
		{"past a failed one", []seen{{1, failed}, {2, confirmed}, {1, confirmed}}, false, 0, 0},
		{"past one that failed too seldom", []seen{{1, failed}, {1, failed}, {2, confirmed}}, false, 0, 0},
		{"past one that failed as often as it may", []seen{{1, failed}, {1, failed}, {1, failed}, {2, confirmed}}, true, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log []arrival
			for _, s := range test.log {
				log = append(log, arrival{message: message{ID: uuid.UUID{byte(s.version)}, Aggregate: "a", Version: s.version}, answer: s.answer})
			}
			got := readLog(log)
			if (got.err() == nil) != test.ordered || got.Repeats != test.repeats || got.AfterEnd != test.after {
				t.Errorf("problems %v, %d repeats, %d after the end", got.problems, got.Repeats, got.AfterEnd)
			}
		})
	}
}
