package layers

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// brokers are the packages under runtime/broker, each with its client's module.
var brokers = []struct{ name, client string }{
	{"natsjs", "github.com/nats-io/nats.go"},
	{"rabbitmq", "github.com/rabbitmq/amqp091-go"},
	{"kafka", "github.com/twmb/franz-go"},
	{"watermill", "github.com/ThreeDotsLabs/watermill"},
}

// testOnly are modules that only tests may bring in.
var testOnly = []string{"github.com/nats-io/nats-server", "github.com/cloudevents/sdk-go", "github.com/google/go-cmp", "pgregory.net/rapid", "github.com/santhosh-tekuri/jsonschema", "github.com/chromedp/chromedp"}

// telemetryModule comes with runtime/outboxotel and with nothing else.
const telemetryModule = "go.opentelemetry.io"

// The other tests look for the right module.
func TestTelemetryComesWithItsPackage(t *testing.T) {
	if !imports(dependencies(t, module+"/runtime/outboxotel"), telemetryModule) {
		t.Errorf("runtime/outboxotel doesn't bring in %s: the tests look for the wrong module", telemetryModule)
	}
}

// A service that imports the runtime but for runtime/outboxotel, generated code and one
// broker compiles no other broker's client, and no telemetry.
func TestOneBrokerOneClient(t *testing.T) {
	service := append(runtimePackages(t), module+"/gen/orderevents")
	for _, broker := range brokers {
		t.Run(broker.name, func(t *testing.T) {
			deps := dependencies(t, append(service, module+"/runtime/broker/"+broker.name)...)
			if !imports(deps, broker.client) {
				t.Errorf("its own client, %s, isn't among the %d packages: the test looks for the wrong one", broker.client, len(deps))
			}
			for _, other := range brokers {
				if other.name != broker.name && imports(deps, other.client) {
					t.Errorf("brings in %s, the client of %s", other.client, other.name)
				}
			}
			for _, m := range testOnly {
				if imports(deps, m) {
					t.Errorf("brings in %s, which is for tests", m)
				}
			}
			if imports(deps, telemetryModule) {
				t.Errorf("brings in %s, which is runtime/outboxotel's alone", telemetryModule)
			}
		})
	}
}

// Every package of a broker is in the table.
func TestBrokersAreComplete(t *testing.T) {
	for _, pkg := range list(t, module+"/runtime/broker/...") {
		name, _, _ := strings.Cut(strings.TrimPrefix(pkg, module+"/runtime/broker/"), "/")
		if !slices.ContainsFunc(brokers, func(b struct{ name, client string }) bool { return b.name == name }) {
			t.Errorf("%s isn't in the table of brokers", pkg)
		}
	}
}

// imports reports whether a package of the module, or of a module below it such as a
// major version, is among deps.
func imports(deps []listed, client string) bool {
	return slices.ContainsFunc(deps, func(d listed) bool {
		return d.Module.Path == client || strings.HasPrefix(d.Module.Path, client+"/")
	})
}

// runtimePackages are the runtime's that a service may import, but for the brokers'.
func runtimePackages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(list(t, module+"/runtime/..."), func(pkg string) bool {
		rest := strings.TrimPrefix(pkg, module+"/runtime/")
		return strings.HasPrefix(rest, "broker/") || strings.HasPrefix(rest, "outboxtest") || strings.HasPrefix(rest, "internal/") || rest == "outboxotel"
	})
}

func list(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", pattern).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	pkgs := strings.Fields(string(out))
	if len(pkgs) == 0 {
		t.Fatalf("go list %s: no package", pattern)
	}
	return pkgs
}
