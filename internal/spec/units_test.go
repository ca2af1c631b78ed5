package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoName(t *testing.T) {
	for wire, want := range map[string]string{
		"order_id":             "OrderID",
		"api_url":              "APIURL",
		"sku":                  "SKU",
		"http_ids":             "HTTPIDs",
		"order.accepted":       "OrderAccepted",
		"notification-planner": "NotificationPlanner",
		"IN_PROGRESS":          "InProgress",
		"CNY":                  "CNY",
		"camelCase":            "CamelCase",
		"line_2":               "Line2",
		"3ds":                  "3ds",
		"978":                  "978",
		"v1.2":                 "V12",
		"vat":                  "Vat",
		"ids":                  "IDs",
		"idle":                 "Idle",
		"a__b_":                "AB",
	} {
		if got := goName(wire); got != want {
			t.Errorf("goName(%q) = %q, want %q", wire, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "events.yaml")
	if _, problems := Load(missing); len(problems) != 1 || problems[0].Pos.File != missing ||
		problems[0].Message != "the file cannot be read: no such file or directory" {
		t.Errorf("a missing file gives %+v", problems)
	}
	src, err := os.ReadFile("testdata/good/minimal/events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(missing, src, 0o600); err != nil {
		t.Fatal(err)
	}
	model, problems := Load(missing)
	if len(problems) > 0 || model.File != missing || model.Events[0].Name.Pos.File != missing {
		t.Errorf("a good file gives %+v, %v", model, problems)
	}
}

// largeInputs are hostile files of about size bytes, each the worst of its kind.
func largeInputs(size int) map[string]string {
	fill := func(head, unit string) string {
		return head + strings.Repeat(unit, (size-len(head)-100)/len(unit))
	}
	count := func(head, format string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size-100; i++ {
			fmt.Fprintf(&b, format, i, i+1)
		}
		return b.String()
	}
	return map[string]string{
		"brackets":        fill("types: ", "["),
		"braces":          fill("types: ", "{a: "),
		"lists in lists":  fill("types:\n", "- "),
		"comments":        fill("", "#\n"),
		"spaces":          fill("a: b", " "),
		"anchors":         count("a:\n", "- &a%d x%d\n"),
		"aliases":         fill("a: &a [x]\nb:\n", "- *a\n"),
		"one line":        count("types: { E: { enum: [", "a%dx%d, ") + "é] } }",
		"one line of é":   fill("types: { E: { enum: [", "é, ") + "é] } }",
		"many fields":     count("types:\n  T:\n    fields:\n", "      f%d_%d: string\n"),
		"many clashes":    fill("types: { E: { enum: [", "a, ") + "a] } }",
		"unknown keys":    count("", "versoin%d_%d: 1\n"),
		"unknown types":   count("types:\n", "  T%d: { fields: { a: U%d } }\n"),
		"chain":           count("types:\n", "  T%d: { fields: { a: T%d } }\n"),
		"unknown handles": count("events:\n  a: {}\nconsumers:\n  c:\n    handles:\n", "    - e%dx%d\n"),
		"split map":       fill("a: {", "m: map<string,string>,"),
		"quotes":          fill("a: ", "'"),
		"unclosed":        count("types: { E: { enum: [", "a%dx%d, "),
		"questions":       fill("a: {", "x?: T, "),
		"one long name":   fill("", "a"),
		"list of list":    fill("types: { T: { fields: { a: '", "list<") + "' } } }",
	}
}

func TestLargeInputs(t *testing.T) {
	inputs := largeInputs(maxFileSize / 8)
	inputs["too large"] = strings.Repeat("#", maxFileSize+1)
	for name, src := range inputs {
		t.Run(name, func(t *testing.T) {
			_, problems := Parse("events.yaml", []byte(src))
			if len(problems) == 0 || len(problems) > maxProblems+1 {
				t.Errorf("%d problems", len(problems))
			}
			checkProblems(t, []byte(src), problems)
		})
	}
}

// BenchmarkLargeInputs shows what a file of the largest size costs; none should
// take more than about a second.
func BenchmarkLargeInputs(b *testing.B) {
	for name, src := range largeInputs(maxFileSize) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = Parse("events.yaml", []byte(src))
			}
		})
	}
}
