package rolling

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/gogen"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

const (
	checkout = "../.."
	module   = "example.com/rolling"
)

// builds are two builds of the example as programs, in a module of their own.
type builds struct{ old, new string }

// build generates from the example's events.yaml, as it was with version 1 alone and as it
// is, and builds both.
func build(t *testing.T) builds {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	goMod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read(t, checkout+"/go.mod"), "module "+module)
	write(t, dir+"/go.mod", goMod+"\nrequire github.com/outboxgen/outboxgen v0.0.0\nreplace github.com/outboxgen/outboxgen => "+root+"\n")
	write(t, dir+"/go.sum", read(t, checkout+"/go.sum"))

	// Version 1 is still written while old consumers run.
	now := cut(t, read(t, checkout+"/events.yaml"), "        deprecated: superseded", "        fields:")
	for name, yaml := range map[string]string{"new": now, "old": cut(t, now, "      2:\n", "  order.cancelled:")} {
		generate(t, filepath.Join(dir, name), module+"/"+name, yaml)
		write(t, filepath.Join(dir, name, "main.go"), strings.ReplaceAll(read(t, "testdata/main.go.txt"), "BUILD", name))
		write(t, filepath.Join(dir, name, "version.go"), read(t, "testdata/"+name+".go.txt"))
	}
	upcaster := strings.ReplaceAll(read(t, checkout+"/example/consumers/upcasts/upcasts.go"), "github.com/outboxgen/outboxgen/gen/", module+"/new/gen/")
	write(t, dir+"/new/consumers/upcasts/upcasts.go", upcaster)

	cmd := exec.Command("go", "build", "-o", "bin/", "./old", "./new")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if err := os.Mkdir(dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return builds{old: dir + "/bin/old", new: dir + "/bin/new"}
}

// generate writes the generated package. What sqlc makes doesn't depend on the versions of
// an event.
func generate(t *testing.T, dir, modulePath, yaml string) {
	t.Helper()
	model, problems := spec.Parse("events.yaml", []byte(yaml))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	sql, problems := sqlgen.Generate(model)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const db = "gen/orderevents/internal/outboxdb/"
	paths, err := filepath.Glob(checkout + "/" + db + "*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal("no sqlc output", err)
	}
	in := gogen.Input{Model: model, ModulePath: modulePath, DDL: sql.DDL, DB: map[string][]byte{}}
	for _, p := range paths {
		name := filepath.Base(p)
		in.DB[name] = []byte(read(t, p))
		write(t, filepath.Join(dir, db, name), read(t, p))
	}
	files, problems := gogen.Generate(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, f := range files {
		if !f.Once {
			write(t, filepath.Join(dir, filepath.FromSlash(f.Path)), string(f.Data))
		}
	}
}

// cut removes what stands from one text up to another.
func cut(t *testing.T, s, from, to string) string {
	t.Helper()
	before, rest, found := strings.Cut(s, from)
	i := strings.Index(rest, to)
	if !found || i < 0 {
		t.Fatalf("events.yaml has no %q before %q", from, to)
	}
	return before + rest[i:]
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}
