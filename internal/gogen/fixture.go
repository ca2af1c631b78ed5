package gogen

import (
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/sample"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// fixture is the sample payload of a version, the locked one where it has been
// published: the encoded value of each field that is there, by name. An event whose
// sample is too large is refused.
func (g *generator) fixture(e *spec.Event, v *spec.Version) map[string]string {
	members, ok := sample.Members(v)
	if !ok {
		g.problems.Add(diag.Diagnostic{
			Pos:     e.Name.Pos,
			Rule:    "payload-too-large",
			Message: fmt.Sprintf("a payload of %s always has more than %d values", e.Name.Text, sample.MostValues),
			Hint:    "make parts of it optional, or lists",
		})
	}
	return g.published(e, v, members)
}
