package gogen

import (
	"bytes"
	"fmt"
	"go/format"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/imports"

	"github.com/outboxgen/outboxgen/internal/fileset"
)

// TestCompile compiles, vets and tests what is generated from many models.
func TestCompile(t *testing.T) {
	m := newModule(t)
	var files []fileset.File
	add := func(folder, yaml string) { files = append(files, m.add(folder, input(t, parse(t, yaml)))...) }

	example := read(t, "testdata/example/events.yaml")
	versions := read(t, "testdata/versions/events.yaml")
	add("example", example)
	add("versions", versions)
	add("everything", everything("", allKinds()...))

	m.write("kinds/v2/kinds.go", read(t, "testdata/kinds.go.txt"))
	for name, alias := range map[string]string{"p": "p", "inbox": "inbox", "outbox": "outbox", "json": "json", "data": "data", "next": "next", "d": "d", "old": "old", "upcaster": "upcaster"} {
		m.write("named/"+name+"/type.go", "package "+alias+"\n\n// Decimal is a decimal.\ntype Decimal struct{ S string }\n\n"+
			"func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.S), nil }\n"+
			"func (d *Decimal) UnmarshalText(t []byte) error { d.S = string(t); return nil }\n")
		add("like"+name, everything("    decimal: "+testModule+"/named/"+name+".Decimal\n", "decimal", "Colour"))
		add("versionslike"+name, strings.Replace(versions, "github.com/shopspring/decimal.Decimal", testModule+"/named/"+name+".Decimal", 1))
	}
	add("custom", everything(customTypes(), allKinds()...))
	add("fields", goTypesOfFields(everything("", allKinds()...)))
	add("reserved", read(t, "testdata/reserved.yaml"))
	for _, name := range []string{"outbox", "json", "errors", "ctx", "m", "outboxdb", "lanelease"} {
		add("package"+name, strings.Replace(example, "package: orderevents", "package: "+name, 1))
		add("versions"+name, strings.Replace(versions, "package: orderevents", "package: "+name, 1))
	}
	add("noconsumers", example[:strings.Index(example, "consumers:")])

	model := parse(t, example)
	all := strings.Join(hostileDocs(), "\n\n")
	setDocs(model, all, all)
	files = append(files, m.add("hostile", input(t, model))...)

	m.mustRun("vet", "./...")
	m.mustRun("test", "-vet=off", "./example/...", "./versions/...", "./versionslikep/...", "./everything/...", "./custom/...", "./fields/...", "./reserved/...", "./hostile/...")
	for _, f := range files {
		checkFormatted(t, m.dir, f)
	}
}

// checkFormatted: gofmt and goimports leave the file as it is.
func checkFormatted(t *testing.T, dir string, f fileset.File) {
	t.Helper()
	formatted, err := format.Source(f.Data)
	if err != nil || !bytes.Equal(formatted, f.Data) {
		t.Errorf("gofmt changes %s: %v", f.Path, err)
	}
	formatted, err = imports.Process(filepath.Join(dir, f.Path), f.Data, &imports.Options{
		Comments: true, TabIndent: true, TabWidth: 8, FormatOnly: true,
	})
	if err != nil || !bytes.Equal(formatted, f.Data) {
		t.Errorf("goimports changes %s: %v", f.Path, err)
	}
}

// allKinds are the types that everything knows.
func allKinds() []string {
	return []string{
		"string", "bool", "int32", "int64", "float64", "decimal", "uuid", "timestamp", "date", "duration", "bytes", "json",
		"Colour", "Point", "Nothing", "Node", "Left",
	}
}

// everything is a file with an event a type, which has it in every shape.
func everything(goTypes string, kinds ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\nservice: everything\ngo:\n  package: events\n  out: gen/events\n")
	if goTypes != "" {
		b.WriteString("  types:\n" + goTypes)
	}
	b.WriteString(`
types:
  Colour: { enum: [red, dark-green, IN_PROGRESS, V1.2] }
  Point: { fields: { lat: float64, long: float64 } }
  Nothing: { fields: { flag: bool } }
  Node: { fields: { name: string, next: { type: Node, optional: true }, children: list<Node>, by_name: "map<Node>" } }
  Left: { fields: { rights: list<Right> } }
  Right: { fields: { left: { type: Left, optional: true } } }
`)
	var events []string
	b.WriteString("events:\n")
	for _, kind := range kinds {
		name := strings.ToLower(kind)
		events = append(events, "all."+name)
		fmt.Fprintf(&b, `  all.%s:
    aggregate: { type: thing, id: thing_id, version: thing_version }
    fields:
      thing_id: string
      thing_version: int32
      required: %[2]s
      maybe?: %[2]s
      items: list<%[2]s>
      maybe_items?: list<%[2]s>
      index: map<%[2]s>
      maybe_index?: map<%[2]s>
      grid: list<list<%[2]s>>
      groups: map<list<%[2]s>>
      rows: list<map<%[2]s>>
      deep?: list<map<list<map<%[2]s>>>>
      private?: { type: %[2]s, pii: true }
      inline_enum: { enum: [a, b] }
      inline_maybe?: { enum: [a, b], pii: true }
      inline: { fields: { inner: %[2]s, more: { fields: { innermost: { type: %[2]s, optional: true } } } } }
`, name, kind)
	}
	for _, kind := range []string{"int32", "int64", "uuid"} {
		fmt.Fprintf(&b, `  key.%s:
    aggregate: { type: thing, id: thing_id, version: thing_version }
    fields: { thing_id: %[1]s, thing_version: int64 }
`, kind)
	}
	b.WriteString("consumers:\n  all: { handles: [" + strings.Join(events, ", ") + "] }\n")
	return b.String()
}

// customTypes maps every scalar, some to types of well-known packages.
func customTypes() string {
	own := testModule + "/kinds/v2."
	return `    decimal: github.com/shopspring/decimal.Decimal
    timestamp: time.Time
    uuid: ` + own + `UUID
    date: ` + own + `Date
    duration: ` + own + `Duration
    string: ` + own + `String
    bool: ` + own + `Bool
    int32: ` + own + `Int32
    int64: ` + own + `Int64
    float64: ` + own + `Float64
    bytes: ` + own + `Bytes
    json: ` + own + `JSON
    Colour: ` + own + `Colour
    Point: ` + own + `Point
`
}

// goTypesOfFields gives every field of a scalar or a declared type a Go type of its own.
func goTypesOfFields(yaml string) string {
	own := map[string]string{"Colour": "Colour", "Point": "Point", "decimal": "github.com/shopspring/decimal.Decimal", "timestamp": "time.Time"}
	for _, name := range []string{"UUID", "Date", "Duration", "String", "Bool", "Int32", "Int64", "Float64", "Bytes", "JSON"} {
		own[strings.ToLower(name)] = name
	}
	return field.ReplaceAllStringFunc(yaml, func(line string) string {
		part := field.FindStringSubmatch(line)
		goType, ok := own[part[3]]
		if !ok {
			return line
		}
		if !strings.Contains(goType, ".") {
			goType = testModule + "/kinds/v2." + goType
		}
		return fmt.Sprintf("%s{ type: %q, go_type: %s }", part[1], part[2], goType)
	})
}

// field is a field on a line of its own: its name, its type, and what a list or a map
// of it holds in the end.
var field = regexp.MustCompile(`(?m)^(      (?:required|maybe|items|maybe_items|index|maybe_index|grid|groups|rows|deep)\??: )((?:list<|map<)*(\w+)>*)$`)
