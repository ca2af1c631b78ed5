package export_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func TestEditorTakesGoodFiles(t *testing.T) {
	schema := compile(t, export.Editor())
	for _, file := range goodFiles(t) {
		if err := schema.Validate(readYAML(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What an editor can see without knowing the whole file, it underlines.
func TestEditorRefusesBadFiles(t *testing.T) {
	schema := compile(t, export.Editor())
	for _, name := range []string{
		"unknown-keys", "wrong-shapes", "field-shapes", "missing-everything", "not-a-mapping", "bad-names",
		"dialect-unknown", "ordering-unknown", "keep-days", "keep-words", "retain", "version-two", "version-missing",
		"versions-shapes", "event-missing", "exports", "exports-paths", "exports-base-host", "consumer-settings",
		"type-shapes", "source", "aggregate", "paths", "nulls", "empty-collections",
	} {
		if schema.Validate(readYAML(t, filepath.Join("../spec/testdata/bad", name, "events.yaml"))) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The keys of the schema are those that the parser knows, which names them in the hint
// for a key that it doesn't know.
func TestEditorKeysAreTheParsers(t *testing.T) {
	doc := readJSON(t, export.Editor()).(map[string]any)
	const unknown = "qqqqqqqqqqqqqqqq: 1"
	for where, text := range map[string]string{
		"":               unknown,
		"go":             "go: { % }",
		"outbox":         "outbox: { % }",
		"sql":            "sql: { % }",
		"broker":         "broker: { % }",
		"exports":        "exports: { % }",
		"lint":           "lint: { % }",
		"type":           "types: { A: { % } }",
		"event":          "events: { a.b: { % } }",
		"aggregate":      "events: { a.b: { aggregate: { % } } }",
		"source":         "events: { a.b: { source: { % } } }",
		"eventBroker":    "events: { a.b: { broker: { % } } }",
		"version":        "events: { a.b: { versions: { 1: { % } } } }",
		"field":          "events: { a.b: { fields: { f: { type: string, % } } } }",
		"consumer":       "consumers: { a: { % } }",
		"retry":          "consumers: { a: { retry: { % } } }",
		"consumerBroker": "consumers: { a: { broker: { % } } }",
	} {
		table := doc
		if where != "" {
			table = doc["definitions"].(map[string]any)[where].(map[string]any)
		}
		var keys []string
		for key, value := range table["properties"].(map[string]any) {
			keys = append(keys, key)
			if value.(map[string]any)["description"] == "" {
				t.Errorf("%s of %q has no description", key, where)
			}
		}
		slices.Sort(keys)
		known := knownKeys(t, strings.ReplaceAll(text, "%", unknown))
		if where == "event" { // the parser knows these to say where they belong
			known = slices.DeleteFunc(known, func(key string) bool { return key == "upcast" || key == "reserved" })
		}
		if !slices.Equal(keys, known) {
			t.Errorf("keys of %q: the schema has %v, the parser %v", where, keys, known)
		}
	}
}

func knownKeys(t *testing.T, text string) []string {
	t.Helper()
	_, problems := spec.Parse("events.yaml", []byte(text))
	for _, p := range problems {
		if list, ok := strings.CutPrefix(p.Hint, "the keys here are "); ok {
			keys := strings.Split(list, ", ")
			slices.Sort(keys)
			return keys
		}
	}
	t.Fatalf("the parser names no keys for %s: %v", text, problems)
	return nil
}
