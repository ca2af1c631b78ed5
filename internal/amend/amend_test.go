package amend_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/amend"
	"github.com/outboxgen/outboxgen/internal/spec"
)

var update = flag.Bool("update", false, "rewrite the expected output of the golden cases")

// A case is a file and a command; one whose name begins with "refused" has no file
// after it, and the others hold every line of the file before.
func TestCases(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			src := read(t, dir, "before.yaml")
			model, problems := spec.Parse("events.yaml", src)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			out, err := run(t, src, model, strings.Fields(string(read(t, dir, "command.txt"))))
			if strings.HasPrefix(filepath.Base(dir), "refused") {
				r := (*amend.Refusal)(nil)
				if !errors.As(err, &r) {
					t.Fatalf("not refused: %v\n%s", err, out)
				}
				golden(t, dir, "stderr.txt", r.Message+"\n    hint: "+r.Hint+"\n")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			golden(t, dir, "after.yaml", string(out))
			keepsLines(t, src, out)
			if _, problems := spec.Parse("events.yaml", out); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
}

func run(t *testing.T, src []byte, model *spec.Model, command []string) ([]byte, error) {
	t.Helper()
	flags := flag.NewFlagSet("add", flag.ContinueOnError)
	var e amend.Event
	flags.StringVar(&e.Aggregate, "aggregate", "", "")
	flags.StringVar(&e.Consumer, "consumer", "", "")
	handles := flags.String("handles", "", "")
	if err := flags.Parse(command[2:]); err != nil {
		t.Fatal(err)
	}
	e.Name = command[1]
	if command[0] == "consumer" {
		return amend.AddConsumer(src, model, command[1], strings.Split(*handles, ","))
	}
	return amend.AddEvent(src, model, e)
}

// keepsLines: but for handles on one line, what was there is there in its order.
func keepsLines(t *testing.T, before, after []byte) {
	t.Helper()
	rest := bytes.Split(after, []byte("\n"))
	for _, line := range bytes.Split(bytes.TrimSuffix(before, []byte("\n")), []byte("\n")) {
		i := 0
		for i < len(rest) && !bytes.Equal(rest[i], line) {
			i++
		}
		switch {
		case i < len(rest):
			rest = rest[i+1:]
		case !bytes.Contains(line, []byte("handles: [")):
			t.Errorf("the line %q is gone, or at another place", line)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func golden(t *testing.T, dir, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, dir, name)), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// Whatever good file it is, what comes out is in order, or the file is refused.
func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("../spec/testdata/good/*/events.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, name := range append(files, "../../events.yaml") {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		model, problems := spec.Parse("events.yaml", src)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		consumers := []string{"", "brand-new"}
		for _, c := range model.Consumers {
			consumers = append(consumers, c.Name.Text)
		}
		for _, c := range consumers {
			out, err := amend.AddEvent(src, model, amend.Event{Name: "parcel.stamped", Consumer: c})
			if err != nil {
				t.Logf("%s, consumer %q: %v", name, c, err)
				continue
			}
			after, problems := spec.Parse("events.yaml", out)
			if len(problems) > 0 || len(after.Events) != len(model.Events)+1 {
				t.Errorf("%s, consumer %q: %v", name, c, problems)
			}
			keepsLines(t, src, out)
		}
	}
}
