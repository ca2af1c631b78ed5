package privileges

import (
	"github.com/outboxgen/outboxgen/internal/spec"
)

// StatementNames are the generated statements that a role runs.
func StatementNames(m *spec.Model, role Role) []string {
	in := &model{Model: m, lanes: m.Outbox.Ordering == spec.OrderingAggregate, deletes: m.Outbox.KeepPublished == 0}
	return in.statements(role, in.stale(""))
}
