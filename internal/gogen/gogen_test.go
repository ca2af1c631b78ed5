package gogen

import (
	"fmt"
	"go/token"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func TestDedupConstraint(t *testing.T) {
	model := parse(t, read(t, "testdata/example/events.yaml"))
	for prefix, want := range map[string]string{"": "uq_consumed_event_identity", "shop_": "uq_shop_consumed_event_identity"} {
		model.Outbox.TablePrefix.Text = prefix
		if got := DedupConstraint(model); got != want {
			t.Error(got, want)
		}
		if !strings.Contains(dataOf(generate(t, input(t, model)), "consumers.gen.go"), `const dedupConstraint = "`+want+`"`) {
			t.Error("not in the output:", want)
		}
	}
}

// What events.yaml says is what the consumer gets, to the millisecond.
func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"1h": "time.Hour", "90m": "90 * time.Minute", "1h30m15s": "5415 * time.Second", "1s": "time.Second",
		"1500ms": "1500 * time.Millisecond", "20ms": "20 * time.Millisecond", "1m1ms": "60001 * time.Millisecond", "60000ms": "time.Minute",
	} {
		yaml := strings.Replace(read(t, "testdata/example/events.yaml"), "  sales-report:\n", "  sales-report:\n    timeout: "+text+"\n", 1)
		src := dataOf(generate(t, input(t, parse(t, yaml))), "consumers.gen.go")
		_, src, _ = strings.Cut(src, "func NewSalesReport")
		_, src, _ = strings.Cut(src, "Timeout:")
		if got, _, _ := strings.Cut(strings.TrimSpace(src), ","); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestPaths(t *testing.T) {
	yaml := strings.Replace(read(t, "testdata/example/events.yaml"), "out: gen/orderevents", "out: internal/x", 1)
	in := input(t, parse(t, yaml))
	in.ModulePath, in.ConsumersDir, in.RuntimeModule = "example.com/mono/services/orders", "", "example.com/fork"
	files := generate(t, in)
	stub := dataOf(files, "consumers/salesreport/handler.go")
	// goimports writes the name of a package that differs from its folder's.
	for _, want := range []string{`orderevents "example.com/mono/services/orders/internal/x"`, `"example.com/fork/runtime/outbox"`} {
		if !strings.Contains(stub, want) {
			t.Errorf("no %s in\n%s", want, stub)
		}
	}
	if !strings.Contains(dataOf(files, "internal/x/store.gen.go"), `"example.com/mono/services/orders/internal/x/internal/outboxdb"`) {
		t.Error("outboxdb is imported from elsewhere")
	}
}

func TestImportNames(t *testing.T) {
	for goType, want := range map[string]string{
		"github.com/shopspring/decimal.Decimal": `"github.com/shopspring/decimal"`,
		"github.com/cockroachdb/apd/v3.Decimal": `"github.com/cockroachdb/apd/v3"`,
		"gopkg.in/inf.v0.Dec":                   `"gopkg.in/inf.v0"`,
		"example.com/go-money.Decimal":          `"example.com/go-money"`,
		"example.com/big.decimal.Decimal":       `bigdecimal "example.com/big.decimal"`,
		"example.com/p.Decimal":                 `ppkg "example.com/p"`,
		"example.com/outbox.Decimal":            `1 "`,
		"example.com/json.Decimal":              `1 "`,
	} {
		yaml := strings.Replace(read(t, "testdata/example/events.yaml"), "github.com/shopspring/decimal.Decimal", goType, 1)
		src := dataOf(generate(t, input(t, parse(t, yaml))), "events.gen.go")
		if head, _, _ := strings.Cut(src, "const"); !strings.Contains(head, want) {
			t.Errorf("%s: no %s in\n%s", goType, want, head)
		}
	}
}

// Types that hold each other twice grow as a power of two: such a payload is
// refused before it takes all memory.
func TestPayloadTooLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nservice: s\ngo: { package: events, out: gen/events }\ntypes:\n")
	for i := range 40 {
		fmt.Fprintf(&b, "  T%d: { fields: { a: T%d, b: T%d } }\n", i, i+1, i+1)
	}
	b.WriteString(`  T40: { fields: { a: string } }
events:
  large:
    aggregate: { type: thing, id: id, version: version }
    fields: { id: string, version: int64, t: T0 }
`)
	files, problems := Generate(input(t, parse(t, b.String())))
	if files != nil || len(problems) != 1 || problems[0].Rule != "payload-too-large" {
		t.Errorf("%d files, %v", len(files), problems)
	}
	optional := strings.ReplaceAll(b.String(), "fields: { a: T", "fields: { a: string, c: list<string>, d: T")
	optional = strings.NewReplacer("d: T", "d: { optional: true, type: T", ", b: T", "}, b: list<T").Replace(optional)
	optional = strings.ReplaceAll(optional, " } }\n", "> } }\n")
	optional = strings.Replace(optional, "a: string> } }", "a: string } }", 1)
	if src := dataOf(generate(t, input(t, parse(t, optional))), "events_gen_test.go"); len(src) > 50_000 {
		t.Errorf("the sample of optional parts has %d bytes", len(src))
	}
}

// TestFixedNamesAreTaken: what the package declares whatever the file says,
// nothing in the file may be called.
func TestFixedNamesAreTaken(t *testing.T) {
	yaml := read(t, "testdata/example/events.yaml")
	model := parse(t, yaml)
	g := newGenerator(input(t, model))
	versions := newGenerator(input(t, parse(t, read(t, "testdata/versions/events.yaml"))))
	found := 0
	for _, f := range []*file{g.eventsFile(), g.writerFile(), g.storeFile(), g.purgeFile(), g.topologyFile(), g.schemaFile(), g.consumersFile(), g.inboxFile(), g.reconcileFile(), versions.upcastsFile()} {
		for _, what := range f.made.decls {
			_, name, _ := strings.Cut(what, " ")
			if !token.IsExported(name) || strings.HasPrefix(what, "func (") || g.whereNamed(name).IsValid() {
				continue
			}
			found++
			_, problems := spec.Parse("events.yaml", []byte(strings.Replace(yaml, "types:\n  Currency:", "types:\n  "+name+": { fields: { a: string } }\n  Currency:", 1)))
			if len(problems) != 1 || problems[0].Rule != "go-name-clash" {
				t.Errorf("a type may be called %s: %d findings", name, len(problems))
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d names", found)
	}
}
