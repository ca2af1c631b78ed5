package observability

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/promtool"
)

func runPromtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := promtool.Find(t.Context(), func(step string) { t.Log(step) })
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlerts(t *testing.T) {
	runPromtool(t, "check", "rules", "alerts.yaml")
	runPromtool(t, "test", "rules", "alerts_test.yaml")
}

// ruleFile is what we read of alerts.yaml and write of the dashboard.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// anchors are the runbooks of docs/operations.md.
var anchors = []string{"backlog-grows", "broker-down", "poison-message", "duplicate-storm", "lost-event-suspicion"}

// Every alert leads to a runbook and has a test that sees it fire.
func TestAlertsHaveRunbooksAndTests(t *testing.T) {
	tests, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts(t) {
		anchor, ok := strings.CutPrefix(r.Annotations["runbook"], "docs/operations.md#")
		if !ok || !slices.Contains(anchors, anchor) || r.Annotations["summary"] == "" {
			t.Errorf("%s: runbook %q, summary %q", r.Alert, r.Annotations["runbook"], r.Annotations["summary"])
		}
		if !strings.Contains(string(tests), "alertname: "+r.Alert+"\n        exp_alerts:\n          - ") {
			t.Errorf("%s: no test sees it fire", r.Alert)
		}
		if !strings.Contains(string(tests), "alertname: "+r.Alert+", exp_alerts: []") {
			t.Errorf("%s: no test sees it quiet", r.Alert)
		}
	}
}

// Each of these runbooks is on its page, and names its alerts.
func TestRunbooksNameTheirAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	runbooks := map[string]string{}
	for _, part := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		runbooks[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = text
	}
	for _, r := range alerts(t) {
		anchor := strings.TrimPrefix(r.Annotations["runbook"], "docs/operations.md#")
		if !strings.Contains(runbooks[anchor], "`"+r.Alert+"`") {
			t.Errorf("the runbook %s of docs/operations.md is missing, or doesn't name %s", anchor, r.Alert)
		}
	}
}

type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries are the dashboard's expressions, by panel.
func (d dashboard) queries() map[string][]string {
	out := make(map[string][]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], target.Expr)
		}
	}
	return out
}

// promtool reads the dashboard's expressions as rules.
func TestDashboardQueries(t *testing.T) {
	d, group, seen := readDashboard(t), ruleGroup{Name: "dashboard"}, map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] || p.Title == "" || (p.Type != "row" && len(p.Targets) == 0) {
			t.Errorf("panel %d (%s): no id of its own, title or query", p.ID, p.Title)
		}
		seen[p.ID] = true
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$consumer", ".*", "$event_type", ".*")
	for title, queries := range d.queries() {
		for _, query := range queries {
			expr := variables.Replace(query)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: a variable that isn't declared: %s", title, expr)
			}
			group.Rules = append(group.Rules, rule{Record: "panel:" + strings.Repeat("x", len(group.Rules)+1), Expr: expr})
		}
	}
	text, err := yaml.Marshal(ruleFile{Groups: []ruleGroup{group}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runPromtool(t, "check", "rules", path)
}
