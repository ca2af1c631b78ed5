package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/gogen"
)

func TestCodeCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := &project{config: "events.yaml"}
	in := gogen.Input{ModulePath: "example.com/a", DDL: []string{"CREATE"}, DB: map[string][]byte{"a.go": []byte("a"), "b.go": []byte("b")}}
	cache := newCodeCache(p, in, sources{events: []byte("events")})
	if cache.file == "" {
		t.Skip("no cache folder on this system")
	}
	if _, ok := cache.load(); ok {
		t.Fatal("an empty cache has something")
	}
	files := []fileset.File{{Path: "a.go", Data: []byte("package a\n")}, {Path: "b.go", Data: []byte("package b\n"), Once: true}}
	if err := cache.store(files); err != nil {
		t.Fatal(err)
	}
	got, ok := newCodeCache(p, in, sources{events: []byte("events")}).load()
	if !ok || len(got) != 2 || !bytes.Equal(got[0].Data, files[0].Data) || got[0].Once || !got[1].Once {
		t.Fatalf("stored %v, loaded %v, %v", files, got, ok)
	}

	// Everything that rendering depends on is in the key.
	for name, change := range map[string]func(in *gogen.Input, from *sources){
		"events":      func(_ *gogen.Input, from *sources) { from.events = []byte("event s") },
		"lock":        func(_ *gogen.Input, from *sources) { from.lock = []byte("lock") },
		"import path": func(in *gogen.Input, _ *sources) { in.ModulePath = "example.com/b" },
		"tables":      func(in *gogen.Input, _ *sources) { in.DDL = []string{"CREATE", "TABLE"} },
		"sqlc's code": func(in *gogen.Input, _ *sources) {
			in.DB = map[string][]byte{"a.go": []byte("a"), "b.go": []byte("c")}
		},
		"sqlc's files": func(in *gogen.Input, _ *sources) {
			in.DB = map[string][]byte{"a.go": []byte("a"), "c.go": []byte("b")}
		},
	} {
		in, from := in, sources{events: []byte("events")}
		change(&in, &from)
		if _, ok := newCodeCache(p, in, from).load(); ok {
			t.Errorf("%s: not in the key", name)
		}
	}
	if other := newCodeCache(&project{config: "other/events.yaml"}, in, sources{events: []byte("events")}); other.file == cache.file {
		t.Error("two projects share a file")
	}

	// A file that was cut short or changed is no cache.
	whole, err := os.ReadFile(cache.file)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		broken := bytes.Clone(whole)
		broken[at] ^= 1
		for _, data := range [][]byte{broken, whole[:at]} {
			if err := os.WriteFile(cache.file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok := cache.load(); ok {
				t.Errorf("byte %d: broken, and loaded", at)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Dir(cache.file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %d files, %v", len(entries), err)
	}
}
