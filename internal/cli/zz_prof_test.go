package cli

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func BenchmarkPlan(b *testing.B) {
	a := &app{stdout: io.Discard, stderr: os.Stderr}
	p, err := openProject("/tmp/scale/events.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.plan(context.Background(), p, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		spec.Load("/tmp/scale/events.yaml")
	}
}
