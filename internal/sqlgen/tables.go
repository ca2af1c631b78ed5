package sqlgen

import (
	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Layouts are the tables and views of ours, by the ordering that they are made for.
type Layouts struct {
	Want  ddl.Schema // as the model asks for
	Other ddl.Schema // as it would be with the other ordering
}

// Tables gives what schema.sql says as data.
func Tables(m *spec.Model) (Layouts, diag.List) {
	r := newRenderer(m)
	lanes := m.Outbox.Ordering == spec.OrderingAggregate
	layouts := Layouts{Want: r.tables(lanes), Other: r.tables(!lanes)}
	return layouts, r.problems
}

func (r *renderer) tables(lanes bool) ddl.Schema {
	text := r.render(schemaFile, templateData{Lanes: lanes})
	schema, err := ddl.Parse(ddl.Split(string(text)))
	if err != nil {
		r.report(schemaFile, err)
	}
	return schema
}
