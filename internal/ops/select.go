package ops

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// mostSelected bounds a selection, and what is kept in memory of it.
const mostSelected = 100_000

// Selection says which dead or parked events are meant: those of IDs, or all that the other
// conditions, together, leave.
type Selection struct {
	IDs []uuid.UUID
	All bool // needed where nothing else is said

	Type          string
	Kind          string // of the last error, or of what it was parked for
	AggregateType string
	AggregateID   string // with AggregateType
	Before, After time.Time
	Limit         int // 0 for all, up to 100,000

	// Discarded means those that people gave up on, in place of dead ones.
	Discarded bool

	behind string // of a list: the last one of the page before
}

// errNothingSaid asks for a selection that somebody has thought of.
var errNothingSaid = errors.New("nothing is selected: name event ids, a condition, or all")

// check refuses a selection that says nothing.
func (sel Selection) check() error {
	narrowed := sel.Type != "" || sel.Kind != "" || sel.AggregateType != "" || !sel.Before.IsZero() || !sel.After.IsZero()
	switch {
	case len(sel.IDs) == 0 && !sel.All && !narrowed:
		return errNothingSaid
	case len(sel.IDs) > mostSelected:
		return fmt.Errorf("%d event ids: at most %d at a time", len(sel.IDs), mostSelected)
	}
	return nil
}

func (sel Selection) limit() int {
	if sel.Limit <= 0 {
		return mostSelected
	}
	return min(sel.Limit, mostSelected)
}

// narrow adds what a selection says of the type, the kind and the time, by their columns.
func (sel Selection) narrow(where *conditions, typ, kind, failedAt string) {
	if sel.Type != "" {
		where.add(typ+" = ?", sel.Type)
	}
	if sel.Kind != "" {
		where.add(kind+" = ?", sel.Kind)
	}
	if !sel.Before.IsZero() {
		where.add(failedAt+" < '1970-01-01' + INTERVAL ? MICROSECOND", sel.Before.UnixMicro())
	}
	if !sel.After.IsZero() {
		where.add(failedAt+" >= '1970-01-01' + INTERVAL ? MICROSECOND", sel.After.UnixMicro())
	}
}

// eventIDs are the texts that are event ids: others were written by hand, no command can name
// them, and no relay publishes them. Braces would be names of ours.
var eventIDs = fmt.Sprintf(" RLIKE '^%[1]s%[1]s-%[1]s-%[1]s-%[1]s-%[1]s%[1]s%[1]s$'", strings.Repeat("[0-9a-f]", 4))

// conditions collects the parts of a WHERE.
type conditions struct {
	parts []string
	args  []any
}

func (c *conditions) add(part string, args ...any) {
	c.parts = append(c.parts, part)
	c.args = append(c.args, args...)
}

func (c *conditions) String() string { return strings.Join(c.parts, " AND ") }

// text is what the audit says of a selection.
func (sel Selection) text() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	if len(sel.IDs) > 0 {
		parts = append(parts, fmt.Sprintf("%d by id", len(sel.IDs)))
	}
	add("type", sel.Type)
	add("kind", sel.Kind)
	if sel.AggregateType != "" {
		add("aggregate", sel.AggregateType+"/"+sel.AggregateID)
	}
	if !sel.Before.IsZero() {
		add("before", sel.Before.Format(time.RFC3339))
	}
	if !sel.After.IsZero() {
		add("after", sel.After.Format(time.RFC3339))
	}
	if len(parts) == 0 {
		parts = append(parts, "all")
	}
	if sel.Limit > 0 {
		add("limit", fmt.Sprint(sel.Limit))
	}
	return strings.Join(parts, ", ")
}

// parsed are those of ids that are event ids.
func parsed(ids []string) []uuid.UUID {
	out := make([]uuid.UUID, 0, len(ids))
	for _, text := range ids {
		if id, err := uuid.Parse(text); err == nil {
			out = append(out, id)
		}
	}
	return out
}
