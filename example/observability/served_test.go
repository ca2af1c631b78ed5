package observability

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/example/telemetry"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/natsserver"
)

// foreign are the metrics that other programs write.
var foreign = []string{"outbox_reconcile_difference"}

// process is one of the example's, with where it serves.
type process struct {
	name string
	url  string // of metrics and probes
	api  string // of the orders
}

var addressIn = regexp.MustCompile(`address"?[=:]"?(127\.0\.0\.1:\d+)`)

// startProcess builds and starts a command, and ends it with the test.
func startProcess(t *testing.T, name string, env []string) process {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	cmd := exec.Command(program) //nolint:noctx // ended below, in its own way
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	served, read := make(chan process, 1), make(chan struct{})
	go func() {
		defer close(read)
		p := process{name: name}
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			t.Logf("%s: %s", name, lines.Text())
			match := addressIn.FindStringSubmatch(lines.Text())
			switch {
			case match == nil:
			case strings.Contains(lines.Text(), "serving metrics and probes"):
				p.url = "http://" + match[1]
			case strings.Contains(lines.Text(), "taking orders"):
				p.api = "http://" + match[1]
			}
			if p.url != "" && (p.api != "" || name != "api") {
				select {
				case served <- p:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	select {
	case p := <-served:
		return p
	case <-time.After(patience):
		t.Fatalf("%s doesn't serve after %v", name, patience)
		return process{}
	}
}

// get returns what an address answers.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

var sampleIn = regexp.MustCompile(`(?m)^outbox_[a-z_]+`)

func postOrder(t *testing.T, api string) {
	t.Helper()
	body := `{"request_id":"r-1","currency":"EUR","lines":[{"sku":"apple","quantity":2,"unit_price":{"amount":"1.50","currency":"EUR"}}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+"/orders", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Tenant-ID", "1")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("the order was answered with %s", response.Status)
	}
}

// Dashboard and rules name what the example's three processes serve, and the dashboard all of it.
func TestMetricsAreServed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, server dbtest.Database) {
		nats := natsserver.StartT(t, natsserver.Config{})
		prepare(t, server, nats.URL())
		env := []string{
			"ORDERS_DSN=" + server.DSN, "ORDERS_BROKER_URL=" + nats.URL(), "ORDERS_LISTEN=" + freeAddress(t),
			telemetry.AddressVar + "=127.0.0.1:0",
		}
		api, relay, consumers := startProcess(t, "api", env), startProcess(t, "relay", env), startProcess(t, "consumers", env)
		postOrder(t, api.api)
		await(t, "the effects of an order", func() bool {
			_, text := get(t, consumers.url+"/metrics")
			return strings.Contains(text, `outbox_consumer_effect_latency_seconds_count{consumer="notification-planner",event_type="order.accepted"} 1`) &&
				strings.Contains(text, `outbox_parked{consumer="sales-report"} 0`)
		})
		served := map[string]bool{}
		for _, p := range []process{api, relay, consumers} {
			for _, probe := range []string{"/healthz", "/readyz"} {
				await(t, p.name+probe, func() bool { code, _ := get(t, p.url+probe); return code == http.StatusOK })
			}
			_, text := get(t, p.url+"/metrics")
			for _, name := range sampleIn.FindAllString(text, -1) {
				served[name] = true
			}
			if strings.Contains(text, "otel_scope") || strings.Contains(text, "target_info") {
				t.Errorf("%s serves labels or series that nobody asked for", p.name)
			}
		}
		checkNames(t, served)
		nats.Stop()
		_, body := get(t, relay.url+"/healthz")
		if !strings.Contains(body, `"status":"ok"`) {
			t.Errorf("a relay without its broker: %s", body)
		}
	})
}

// documentedMetrics are those of docs/metrics.md's table, with underscores.
func documentedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `(outbox\\.[a-z_.]+)").FindAllStringSubmatch(string(text), -1) {
		out[strings.ReplaceAll(match[1], ".", "_")] = true
	}
	return out
}

func checkNames(t *testing.T, served map[string]bool) {
	t.Helper()
	named := map[string]bool{}
	look := func(where, expr string) {
		for _, name := range regexp.MustCompile(`outbox_[a-z_]+`).FindAllString(expr, -1) {
			named[name] = true
			if !served[name] && !slices.Contains(foreign, name) {
				t.Errorf("%s names %s, which no process serves", where, name)
			}
		}
	}
	for _, r := range alerts(t) {
		look("alert "+r.Alert, r.Expr)
	}
	clear(named)
	d := readDashboard(t)
	for title, queries := range d.queries() {
		for _, query := range queries {
			look("panel "+title, query)
		}
	}
	for _, v := range d.Templating.List {
		look("variable "+v.Name, v.Definition)
	}
	for name := range served {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !named[name] && !named[base+"_bucket"] && !named[base+"_count"] {
			t.Errorf("%s is served, and no panel shows it", name)
		}
	}
	documented := documentedMetrics(t)
	for name := range served {
		for _, suffix := range []string{"_bucket", "_sum", "_count", "_total", "_seconds"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !documented[name] && !strings.HasPrefix(name, "outbox_subscription_") && !strings.HasPrefix(name, "outbox_purge_") {
			t.Errorf("%s is served, and docs/metrics.md doesn't name it", name)
		}
	}
	if len(served) < 40 {
		t.Errorf("only %d metrics are served: %v", len(served), fmt.Sprint(served))
	}
}
