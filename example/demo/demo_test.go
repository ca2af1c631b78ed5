package main

import (
	"os"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" { // a victim of the story below
		os.Exit(runVictim(role))
	}
	os.Exit(m.Run())
}

// The whole story, shorter than `make demo` tells it.
func TestStory(t *testing.T) {
	for _, flavor := range dbserver.Flavors() {
		t.Run(string(flavor), func(t *testing.T) {
			if code := run([]string{"-db", string(flavor), "-orders", "600"}); code != 0 {
				t.Errorf("the demo ended with %d", code)
			}
		})
	}
}
