package ops

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// All ids of UUIDv7 that are made at a time are between the bounds around it.
func TestIDBound(t *testing.T) {
	for range 1000 {
		id := uuid.Must(uuid.NewV7())
		made, is := idTime(id.String())
		if !is || time.Since(made).Abs() > time.Minute {
			t.Fatal(id, made, is)
		}
		if text := id.String(); text <= idBound(made) || text >= idBound(made.Add(time.Millisecond)) {
			t.Fatalf("%s is not between %s and %s", text, idBound(made), idBound(made.Add(time.Millisecond)))
		}
	}
	for _, text := range []string{"", "5a3b1d0e-6d8c-4f5e-9a53-0f3f0c6b8f11", "zzzzzzzz-zzzz-7000-8000-000000000001"} {
		if _, is := idTime(text); is {
			t.Error(text)
		}
	}
}

// Ids of a table of the user's may be any text: only what can't end a literal goes into a statement.
func TestInIDs(t *testing.T) {
	id := uuid.NewString()
	if list, args := inIDs([]string{id, id}); list != "'"+id+"','"+id+"'" || len(args) != 0 {
		t.Error(list, args)
	}
	for _, bad := range []string{"'", `\`, "x') OR ('", "\u2019", strings.Repeat("a", 37), "A"} {
		if list, args := inIDs([]string{id, bad}); list != "?, ?" || len(args) != 2 {
			t.Error(list, args)
		}
	}
}

// A key of several columns is gone along in its order.
func TestBehindAndUpTo(t *testing.T) {
	one := &sourceTable{key: []keyColumn{{name: "id"}}}
	if text, args := one.behind([]any{7}); text != "((`id` > ?))" || len(args) != 1 {
		t.Error(text, args)
	}
	two := &sourceTable{Source: spec.Source{}, key: []keyColumn{{name: "a"}, {name: "b`"}}}
	text, args := two.behind([]any{1, 2})
	if want := "`a` >= ? AND ((`a` > ?) OR (`a` = ? AND `b``` > ?))"; text != want || len(args) != 4 {
		t.Errorf("%s %v, want %s", text, args, want)
	}
	text, args = two.upTo([]any{1, 2})
	if want := "`a` <= ? AND NOT (`a` >= ? AND ((`a` > ?) OR (`a` = ? AND `b``` > ?)))"; text != want || len(args) != 5 {
		t.Errorf("%s %v, want %s", text, args, want)
	}
}
