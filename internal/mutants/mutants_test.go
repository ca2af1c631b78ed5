package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table is sound: every mutant can be applied to the code as it is, and its test
// exists. make mutants shows that they are killed.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	names := make(map[string]bool)
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s: it is there twice", m.name)
		}
		names[m.name] = true
		if m.old == m.new {
			t.Errorf("%s: nothing is broken", m.name)
		}
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if !m.hasTest(t) {
			t.Errorf("%s: %s has no test %s", m.name, m.pkg, m.test)
		}
	}
	if len(mutants) < 40 {
		t.Errorf("%d mutants", len(mutants))
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func (m mutant) hasTest(t *testing.T) bool {
	t.Helper()
	top, _, _ := strings.Cut(m.test, "/")
	pattern := regexp.MustCompile(top)
	files, err := filepath.Glob(filepath.Join(m.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if pattern.MatchString(found[1]) {
				return true
			}
		}
	}
	return false
}
