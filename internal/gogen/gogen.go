// Package gogen writes the Go code that a checked events.yaml asks for: payload
// types, writers, consumers, the store, the purgers, and the stub of each consumer.
package gogen

import (
	"path"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Input is what the Go code is made of.
type Input struct {
	Model *spec.Model

	// Locked is what has been published, with a fixture a version: the generated
	// tests hold on to those. nil when there is no lock.
	Locked *spec.Model

	// ModulePath is the import path of the folder of events.yaml.
	ModulePath string

	// RuntimeModule is the module that holds runtime/outbox. Defaults to
	// github.com/outboxgen/outboxgen.
	RuntimeModule string

	// DB are the files that sqlc made of our queries, by base name.
	DB map[string][]byte

	// DDL are the statements of schema.sql, in the order in which to run them.
	DDL []string

	// ConsumersDir is the folder of the consumers' stubs, relative to the folder
	// of events.yaml, slash separated. Defaults to consumers.
	ConsumersDir string
}

// Generate returns the Go files, sorted by path. On any finding there are none.
func Generate(in Input) ([]fileset.File, diag.List) {
	g := newGenerator(in)
	files := []*file{
		g.eventsFile(),
		g.writerFile(),
		g.storeFile(),
		g.purgeFile(),
		g.topologyFile(),
		g.schemaFile(),
		g.fixturesFile(),
	}
	if len(g.model.Consumers) > 0 {
		files = append(files, g.consumersFile(), g.inboxFile())
	}
	for _, f := range []*file{g.reconcileFile(), g.upcastsFile()} {
		if f != nil {
			files = append(files, f)
		}
	}
	g.checkDeclarations(files)
	for _, c := range g.model.Consumers {
		files = append(files, g.stubFile(c))
	}
	if steps := g.manualSteps(); len(steps) > 0 {
		files = append(files, g.upcasterStub(steps))
	}
	return g.render(files)
}

// generator holds what all files are made of.
type generator struct {
	model     *spec.Model
	locked    *spec.Model // nil without a lock
	runtime   string      // import path of runtime/outbox
	rowlease  string      // of runtime/rowlease, and so on
	lanelease string
	purge     string
	outboxdb  string
	pkg       string // import path of the generated package
	stubs     string // folder of the stubs
	ddl       []string
	db        map[string][]byte

	named   []*spec.Named // structs and enums, the inline ones among them, in the order of their first use
	structs []structType  // named structs and payloads
	checked map[string]bool
	private map[string]bool // types that print without some of their fields

	names    map[string]string // import path -> name it is used by
	problems diag.List
}

func newGenerator(in Input) *generator {
	module := in.RuntimeModule
	if module == "" {
		module = "github.com/outboxgen/outboxgen"
	}
	stubs := in.ConsumersDir
	if stubs == "" {
		stubs = "consumers"
	}
	g := &generator{
		model:     in.Model,
		locked:    in.Locked,
		runtime:   module + "/runtime/outbox",
		rowlease:  module + "/runtime/rowlease",
		lanelease: module + "/runtime/lanelease",
		purge:     module + "/runtime/purge",
		pkg:       path.Join(in.ModulePath, in.Model.Go.Out.Text),
		stubs:     stubs,
		ddl:       in.DDL,
		db:        in.DB,
	}
	g.outboxdb = g.pkg + "/internal/outboxdb"
	g.collectTypes()
	g.nameImports()
	return g
}

// DedupConstraint is the name of the unique constraint of the dedup table. A
// duplicate key counts as a duplicate event only when the server names it.
func DedupConstraint(m *spec.Model) string {
	return "uq_" + m.Outbox.TablePrefix.Text + "consumed_event_identity"
}
