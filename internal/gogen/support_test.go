package gogen

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parse(t *testing.T, yaml string) *spec.Model {
	t.Helper()
	model, problems := spec.Parse("events.yaml", []byte(yaml))
	for _, p := range problems {
		t.Errorf("%s: %s (%s)", p.Pos, p.Message, p.Rule)
	}
	if t.Failed() {
		t.FailNow()
	}
	return model
}

// project is the folder of a project whose outbox has the settings of a model:
// the example, or a variant of it.
func project(t *testing.T, model *spec.Model) string {
	t.Helper()
	folder := map[spec.Ordering]string{spec.OrderingAggregate: "lanes", spec.OrderingNone: "rows"}[model.Outbox.Ordering]
	if model.Outbox.KeepPublished == 0 {
		folder += "delete"
	}
	if folder == "lanes" {
		return "../.."
	}
	return "../variants/" + folder
}

// sqlcFiles is what sqlc makes of our queries and the example's source.
func sqlcFiles(t *testing.T, project string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(project + "/gen/orderevents/internal/outboxdb/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal("no sqlc output in", project, err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		files[filepath.Base(p)] = []byte(read(t, p))
	}
	return files
}

// input is what the example's code is made of, with another model.
func input(t *testing.T, model *spec.Model) Input {
	t.Helper()
	sql, problems := sqlgen.Generate(model)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return Input{
		Model:      model,
		ModulePath: testModule,
		DB:         sqlcFiles(t, project(t, model)),
		DDL:        sql.DDL,
	}
}

func generate(t *testing.T, in Input) []fileset.File {
	t.Helper()
	files, problems := Generate(in)
	for _, p := range problems {
		t.Errorf("%s: %s (%s)", p.Pos, p.Message, p.Rule)
	}
	if t.Failed() {
		t.FailNow()
	}
	return files
}

func dataOf(files []fileset.File, suffix string) string {
	for _, f := range files {
		if strings.HasSuffix(f.Path, suffix) {
			return string(f.Data)
		}
	}
	return ""
}

const testModule = "example.com/app"

// module is a Go module outside the checkout, with the checkout as its runtime.
type module struct {
	t   *testing.T
	dir string
}

func newModule(t *testing.T) module {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles generated code")
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m := module{t, t.TempDir()}
	// The same requirements as the checkout's, so that nothing is resolved or downloaded.
	goMod := read(t, filepath.Join(checkout, "go.mod"))
	goMod = regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(goMod, "module "+testModule)
	goMod += fmt.Sprintf("\nrequire github.com/outboxgen/outboxgen v0.0.0\nreplace github.com/outboxgen/outboxgen => %s\n", checkout)
	m.write("go.mod", goMod)
	m.write("go.sum", read(t, filepath.Join(checkout, "go.sum")))
	return m
}

func (m module) write(name, data string) {
	m.t.Helper()
	name = filepath.Join(m.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// add generates into a folder of the module, with sqlc's files where they belong.
func (m module) add(folder string, in Input) []fileset.File {
	m.t.Helper()
	in.ModulePath += "/" + folder
	files := generate(m.t, in)
	for _, f := range files {
		m.write(folder+"/"+f.Path, string(f.Data))
	}
	for name, data := range in.DB {
		m.write(folder+"/"+in.Model.Go.Out.Text+"/internal/outboxdb/"+name, string(data))
	}
	return files
}

// run runs the go command in the module.
func (m module) run(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m module) mustRun(args ...string) {
	m.t.Helper()
	if out, err := m.run(args...); err != nil {
		m.t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
