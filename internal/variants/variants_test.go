package variants

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

const top = "../../"

func parse(t *testing.T, name string) *spec.Model {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := spec.Parse(name, text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return names
}

// TestSameEvents: a variant has the newest version of the example's events, whatever its
// number, and each its own settings.
func TestSameEvents(t *testing.T) {
	example := parse(t, top+"events.yaml")
	options := cmp.Options{
		cmpopts.IgnoreTypes(diag.Pos{}),
		cmpopts.IgnoreFields(spec.Event{}, "Source"),
		cmpopts.IgnoreFields(spec.Version{}, "Number", "Listed", "GoName", "Upcast", "Reserved"),
		cmp.Transformer("newest", func(all []*spec.Version) spec.Version { return *all[len(all)-1] }),
	}
	settings := map[spec.OutboxConfig]string{example.Outbox: "the example"}
	for _, name := range glob(t, "*/events.yaml") {
		m := parse(t, name)
		if diff := cmp.Diff(example.Types, m.Types, options); diff != "" {
			t.Errorf("%s has other types (-example +variant):\n%s", name, diff)
		}
		if diff := cmp.Diff(example.Events, m.Events, options); diff != "" {
			t.Errorf("%s has other events (-example +variant):\n%s", name, diff)
		}
		if same := settings[m.Outbox]; same != "" {
			t.Errorf("%s has the settings of %s", name, same)
		}
		settings[m.Outbox] = name
	}
}

// TestNoArgumentLeft: sqlc leaves an argument where it doesn't look for one,
// such as behind NOT, without a word. The server would refuse the statement.
func TestNoArgumentLeft(t *testing.T) {
	const outboxdb = "gen/orderevents/internal/outboxdb/*.sql.go"
	left := regexp.MustCompile(`sqlc\.(n?arg|slice)\b.*`)
	for _, name := range append(glob(t, top+outboxdb), glob(t, "*/"+outboxdb)...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := left.Find(text); found != nil {
			t.Errorf("%s has %s", name, found)
		}
	}
}
