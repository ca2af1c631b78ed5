package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Caps on what is read. A hand-written events.yaml stays far below all of
// them; they keep a hostile or generated file from costing memory or time.
const (
	maxFileSize  = 1 << 20 // bytes
	maxLockSize  = 4 << 20 // bytes: a lock spells everything out, and has a fixture a version
	maxDepth     = 32      // nested mappings and lists
	maxProblems  = 200     // findings kept in one run
	maxSuggested = 100     // findings after which "did you mean" is no longer searched for
)

// Load reads the events.yaml at path and checks it. The model is nil when
// there is any finding.
func Load(path string) (*Model, diag.List) {
	src, err := readCapped(path)
	if err != nil {
		return nil, diag.List{{
			Pos:     diag.Pos{File: path},
			Rule:    "unreadable-file",
			Message: "the file cannot be read: " + reason(err),
		}}
	}
	return Parse(path, src)
}

// readCapped reads at most one byte more than allowed, so that Parse can tell
// a file that is too large without holding all of it.
func readCapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileSize+1))
}

// reason drops the operation and the path from a file error: the finding
// already names the path.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err.Error()
}

// Parse checks src, the text of an events.yaml. Positions in the findings and
// in the model name file, which is not opened. All problems are collected,
// except that a text which is no YAML at all gives only the first syntax
// error. The model is nil when there is any finding.
func Parse(file string, src []byte) (*Model, diag.List) { return parse(file, src, false) }

func parse(file string, src []byte, lock bool) (*Model, diag.List) {
	s := newSource(file, src)
	c := &checker{
		lock:   lock,
		source: s,
		model:  &Model{File: file, SQL: defaultSQL(), Outbox: defaultOutbox(), Go: GoConfig{Consumers: Name{Text: "consumers"}}},
		types:  map[string]*Named{},
		events: map[string]*Event{},
		meant:  map[string]bool{},
	}
	if c.checkText(); len(c.problems) > 0 {
		return nil, c.result()
	}
	root, problem := s.parse()
	if problem != nil {
		return nil, diag.List{*problem}
	}
	c.walk(c.convert(root, 0))
	if len(c.problems) > 0 {
		return nil, c.result()
	}
	return c.model, nil
}

// checker turns the tree into the model and collects what is wrong with it.
type checker struct {
	*source
	lock     bool // the file is a lock: see ParseLock
	model    *Model
	problems diag.List
	dropped  int // findings beyond maxProblems

	types   map[string]*Named // declared under types:, by name
	events  map[string]*Event // by wire name, broken ones too
	meant   map[string]bool   // what events with a bad name may have been meant to be called: see meantName
	tooDeep bool              // reported already
	claims  []claim           // the Go names of the generated package
}

// problem reports a finding at n.
func (c *checker) problem(n *node, rule, message, hint string, related ...diag.Related) {
	c.add(diag.Diagnostic{
		Pos: n.pos, End: n.end, Rule: rule, Message: message, Hint: hint, Related: related,
	})
}

func (c *checker) add(d diag.Diagnostic) {
	if c.lock && d.Rule == "go-name-clash" { // no Go comes of a lock, and it has no go_name to settle one
		return
	}
	if len(c.problems) >= maxProblems {
		c.dropped++
		return
	}
	c.problems.Add(d)
}

func (c *checker) result() diag.List {
	list := c.problems.Sorted()
	if c.dropped > 0 {
		last := list[len(list)-1]
		list.Add(diag.Diagnostic{
			Pos:     last.Pos,
			Rule:    "too-many-problems",
			Message: fmt.Sprintf("%d more problems are not shown", c.dropped),
			Hint:    "repair those above and run again",
		})
	}
	return list
}

// walk reads the document's top level. Types come first, so that events may
// use them wherever they stand; consumers last, as they name events.
func (c *checker) walk(root *node) {
	if root.kind == kindNull {
		c.problem(root, "empty-file", "the file holds no events", `begin with "version: 1"`)
		return
	}
	keys := []string{"version", "service", "go", "outbox", "sql", "broker", "exports", "types", "events", "consumers", "lint"}
	if c.lock {
		keys = []string{"version", "service", "outbox", "types", "events", "consumers", "retired"}
	}
	o, ok := c.object(root, root, "the file", keys...)
	if !ok {
		return
	}
	c.version(o)
	if v := c.required(o, "service"); v != nil {
		c.model.Service, _ = c.name(v, serviceName)
	}
	if !c.lock {
		c.goConfig(o)
	}
	c.outboxConfig(o)
	c.sqlConfig(o)
	c.readBroker(o)
	c.exports(o)
	c.declareTypes(o)
	c.goTypes(o)
	c.readTypes(o)
	c.readEvents(o)
	c.readConsumers(o)
	c.readRetired(o)
	c.checkBroker()
	c.checkRecursion()
	c.checkGoNames()
	c.checkGoFolders()
	c.checkRebuilds()
	c.readLint(o)
}

// version is read strictly: a file for another version of the grammar must
// not be half understood.
func (c *checker) version(o object) {
	v := c.required(o, "version")
	switch {
	case v == nil || v.kind == kindBad:
	case v.kind == kindScalar && v.text == "1" && v.plain:
	case v.kind == kindScalar && v.text == "1":
		c.problem(v, "unsupported-version", "the version is a number, not a text", "write version: 1, without quotes")
	case v.kind != kindScalar:
		c.problem(v, "unsupported-version", "the version must be a number, found "+v.describe(), "write version: 1")
	default:
		c.problem(v, "unsupported-version",
			fmt.Sprintf("version %s of the file format is not known", v.describe()),
			"this generator reads version: 1; a newer file needs a newer generator")
	}
}
