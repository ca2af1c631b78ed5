package cli_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// checkout is the module that the scripts test and that the modules they make
// build against.
const checkout = "../.."

var update = flag.Bool("update", false, "rewrite the output that the scripts expect")

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the real executable once: without cgo, as most users have it, and
// without -race, with which sqlc takes minutes to compile.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outboxgen-bin-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	flag.Parse()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "outboxgen"), "./cmd/outboxgen")
	build.Dir = checkout
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build outboxgen: %v\n%s", err, out)
		return 1
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return m.Run()
}

func TestScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	goEnv := goEnvironment(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, goEnv...)
			e.Setenv("CHECKOUT", root)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Values[snapshots{}] = map[string]map[string]string{}
			return os.CopyFS(filepath.Join(e.WorkDir, "orders"), os.DirFS("testdata/orders"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"edit": edit, "exits": exits, "snapshot": snapshot, "unchanged": unchanged, "uses-checkout": usesCheckout,
		},
	})
}

// goEnvironment lets the scripts' go commands use what is on the machine, and
// nothing else.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	vars := []string{"GOPROXY=off", "GOFLAGS=-mod=mod", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off"}
	for i, value := range strings.Fields(string(out)) {
		vars = append(vars, names[i]+"="+value)
	}
	return vars
}

// exits code command...: the command ends with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, not %s", code, args[0])
	}
}

// edit file old new: the one place of old in the file becomes new. In both, \n
// is a line's end.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit file old new")
	}
	text := ts.ReadFile(args[0])
	before, after := strings.ReplaceAll(args[1], `\n`, "\n"), strings.ReplaceAll(args[2], `\n`, "\n")
	if n := strings.Count(text, before); n != 1 {
		ts.Fatalf("%q is %d times in %s", before, n, args[0])
	}
	text = strings.Replace(text, before, after, 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// snapshots is the key of the taken ones.
type snapshots struct{}

// snapshot name folder: remember everything in the folder.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot name folder")
	}
	ts.Value(snapshots{}).(map[string]map[string]string)[args[0]] = take(ts, args[1])
}

// unchanged name folder [path...]: nothing but those paths has changed since,
// and each of those has: bytes, mode, time, or being there at all.
func unchanged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: unchanged name folder [except...]")
	}
	before := ts.Value(snapshots{}).(map[string]map[string]string)[args[0]]
	after := take(ts, args[1])
	for _, p := range args[2:] {
		if before[p] == after[p] {
			ts.Fatalf("%s has not changed", p)
		}
		delete(before, p)
		delete(after, p)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		ts.Fatalf("the folder has changed (-before +after):\n%s", diff)
	}
}

func take(ts *testscript.TestScript, dir string) map[string]string {
	files := map[string]string{}
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir(): // a folder's time changes with a temporary file in it
			files[filepath.ToSlash(rel)] = "folder"
			return nil
		case !info.Mode().IsRegular():
			files[filepath.ToSlash(rel)] = info.Mode().String()
			return nil
		}
		data, err := os.ReadFile(p)
		files[filepath.ToSlash(rel)] = fmt.Sprintf("%v %v\n%s", info.Mode(), info.ModTime(), data)
		return err
	}))
	return files
}

// uses-checkout: the module in the current folder builds against the checkout,
// offline.
func usesCheckout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: uses-checkout")
	}
	ours, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	ts.Check(err)
	// The same versions as ours: only those are sure to be on the machine.
	requires := slices.DeleteFunc(strings.Split(string(ours), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "module ")
	})
	text := ts.ReadFile("go.mod")
	module := strings.Split(text, "\n")[0]
	text = module + "\n" + strings.Join(requires, "\n") +
		"\nrequire github.com/outboxgen/outboxgen v0.0.0\nreplace github.com/outboxgen/outboxgen => " + ts.Getenv("CHECKOUT") + "\n"
	ts.Check(os.WriteFile(ts.MkAbs("go.mod"), []byte(text), 0o644))
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("go.sum"), sum, 0o644))
}
