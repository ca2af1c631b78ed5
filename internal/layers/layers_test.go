// Package layers holds the arrows of ARCHITECTURE.md as a test.
package layers

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outboxgen/outboxgen"

// faultPoints depends on nothing, and all of the runtime may use it.
const faultPoints = module + "/internal/fault"

// mayDepend says what the packages under a path may depend on outside the
// standard library, directly or through others.
var mayDepend = []struct {
	pkgs    string // a pattern of go list
	modules []string
	ours    []string // packages of this module, or beginnings of them that end in a slash
}{
	{
		pkgs: faultPoints,
	},
	{
		pkgs:    module + "/runtime/outbox",
		modules: []string{"github.com/google/uuid"},
	},
	{
		pkgs:    module + "/runtime/internal/leasing",
		modules: []string{"github.com/google/uuid"},
		ours:    []string{module + "/runtime/outbox"},
	},
	{
		pkgs:    module + "/runtime/rowlease",
		modules: []string{"github.com/google/uuid"},
		ours:    []string{module + "/runtime/outbox", module + "/runtime/internal/leasing"},
	},
	{
		pkgs:    module + "/runtime/lanelease",
		modules: []string{"github.com/google/uuid"},
		ours:    []string{module + "/runtime/outbox", module + "/runtime/internal/leasing"},
	},
	{
		pkgs:    module + "/runtime/purge",
		modules: []string{"github.com/google/uuid"},
		ours:    []string{module + "/runtime/outbox", module + "/runtime/internal/leasing"},
	},
	{
		pkgs:    module + "/runtime/outboxhealth",
		modules: []string{"github.com/google/uuid"}, // of runtime/outbox
		ours:    []string{module + "/runtime/outbox"},
	},
	{
		pkgs: module + "/runtime/outboxotel", // the API: the SDK is the service's choice
		modules: []string{
			"github.com/google/uuid", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
			"go.opentelemetry.io/otel/log", "go.opentelemetry.io/auto/sdk", "github.com/go-logr/logr", "github.com/go-logr/stdr", "github.com/cespare/xxhash/v2", // of the API
		},
		ours: []string{module + "/runtime/outbox", module + "/runtime/purge", module + "/runtime/internal/leasing"},
	},
	{
		pkgs:    module + "/runtime/mysqlerr",
		modules: []string{"github.com/google/uuid", "github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
		ours:    []string{module + "/runtime/outbox"},
	},
	{
		pkgs:    module + "/runtime/mysqldb",
		modules: []string{"github.com/google/uuid", "github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
		ours:    []string{module + "/runtime/outbox", module + "/runtime/mysqlerr"},
	},
	{
		pkgs:    module + "/runtime/internal/delivery",
		modules: []string{"github.com/google/uuid"},
		ours:    []string{module + "/runtime/outbox"},
	},
	{
		pkgs: module + "/runtime/broker/natsjs",
		modules: []string{
			"github.com/google/uuid", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys",
			"github.com/nats-io/nuid", "github.com/klauspost/compress", "golang.org/x/crypto", "golang.org/x/sys",
		},
		ours: []string{module + "/runtime/outbox", module + "/runtime/internal/delivery"},
	},
	{
		pkgs:    module + "/runtime/broker/rabbitmq",
		modules: []string{"github.com/google/uuid", "github.com/rabbitmq/amqp091-go"},
		ours:    []string{module + "/runtime/outbox", module + "/runtime/internal/delivery"},
	},
	{
		pkgs: module + "/runtime/broker/watermill",
		modules: []string{
			"github.com/google/uuid", "github.com/ThreeDotsLabs/watermill",
			"github.com/lithammer/shortuuid/v3", "github.com/oklog/ulid", "github.com/pkg/errors", // of Watermill
		},
		ours: []string{module + "/runtime/outbox", module + "/runtime/internal/delivery"},
	},
	{
		pkgs: module + "/runtime/broker/kafka",
		modules: []string{
			"github.com/google/uuid", "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kmsg",
			"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/crypto",
		},
		ours: []string{module + "/runtime/outbox", module + "/runtime/internal/delivery"},
	},
	{
		pkgs: module + "/runtime/outboxtest", // no broker's client
		modules: []string{
			"github.com/google/uuid", "github.com/go-sql-driver/mysql", "filippo.io/edwards25519",
			"gopkg.in/yaml.v3", // the record
		},
		ours: []string{
			module + "/runtime/outbox", module + "/runtime/mysqldb", module + "/runtime/mysqlerr", module + "/runtime/internal/delivery",
			module + "/internal/history", module + "/internal/record", module + "/internal/mysqlproxy",
			module + "/internal/scratchdb",
		},
	},
	{
		pkgs: module + "/gen/orderevents",
		modules: []string{
			"github.com/google/uuid",
			"github.com/shopspring/decimal", // by go.types in events.yaml
		},
		ours: []string{
			module + "/runtime/outbox", module + "/runtime/lanelease", module + "/runtime/purge", module + "/runtime/internal/leasing",
			module + "/gen/orderevents/",
		},
	},
	{
		pkgs:    module + "/internal/variants/rows/gen/orderevents",
		modules: []string{"github.com/google/uuid", "github.com/shopspring/decimal"},
		ours: []string{
			module + "/runtime/outbox", module + "/runtime/rowlease", module + "/runtime/purge", module + "/runtime/internal/leasing",
			module + "/internal/variants/rows/gen/orderevents/",
		},
	},
	{
		pkgs: module + "/internal/cli",
		modules: []string{
			"github.com/dave/jennifer", "github.com/spf13/cobra", "github.com/spf13/pflag", "gopkg.in/yaml.v3",
			"golang.org/x/tools", "golang.org/x/mod", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/telemetry",
			"github.com/go-sql-driver/mysql", "filippo.io/edwards25519", // --dsn
			"github.com/google/uuid",                                        // of runtime/outbox
			"github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text", // internal/rebuild
		},
		// Of the runtime it has what internal/ops works with.
		ours: []string{module + "/internal/", module + "/templates", module + "/runtime/outbox", module + "/runtime/mysqlerr", module + "/runtime/purge", module + "/runtime/internal/leasing", module + "/runtime/mysqldb"},
	},
}

func TestDependencies(t *testing.T) {
	for _, rule := range mayDepend {
		t.Run(strings.TrimPrefix(rule.pkgs, module+"/"), func(t *testing.T) {
			for _, dep := range dependencies(t, rule.pkgs) {
				switch {
				case dep.Standard || dep.ImportPath == rule.pkgs:
				case dep.ImportPath == faultPoints && rule.pkgs != module+"/internal/cli":
				case dep.Module.Path == module:
					if !slices.ContainsFunc(rule.ours, func(allowed string) bool {
						return dep.ImportPath == allowed ||
							strings.HasSuffix(allowed, "/") && strings.HasPrefix(dep.ImportPath, allowed)
					}) {
						t.Errorf("depends on %s", dep.ImportPath)
					}
				case !slices.Contains(rule.modules, dep.Module.Path):
					t.Errorf("depends on %s of %s", dep.ImportPath, dep.Module.Path)
				}
			}
		})
	}
}

type listed struct {
	ImportPath string
	Standard   bool
	Module     struct{ Path string }
}

func dependencies(t *testing.T, pkgs ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, pkgs...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var deps []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var d listed
		if err := dec.Decode(&d); err == io.EOF {
			return deps
		} else if err != nil {
			t.Fatal(err)
		}
		deps = append(deps, d)
	}
}
