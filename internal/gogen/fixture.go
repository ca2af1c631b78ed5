package gogen

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// fixture is the sample payload of a version. An event whose sample is too large is
// refused.
func (g *generator) fixture(e *spec.Event, v *spec.Version) string {
	text, ok := sample.Payload(v)
	if !ok {
		g.problems.Add(diag.Diagnostic{
			Pos:     e.Name.Pos,
			Rule:    "payload-too-large",
			Message: fmt.Sprintf("a payload of %s always has more than %d values", e.Name.Text, sample.MostValues),
			Hint:    "make parts of it optional, or lists",
		})
	}
	return text
}
