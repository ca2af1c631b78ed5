package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

func (c *checker) readEvents(top object) {
	n := c.required(top, "events")
	if n == nil || !c.isMapping(top.vals["events"].key, n, "events") {
		return
	}
	if len(n.entries) == 0 {
		c.problem(top.vals["events"].key, "empty-value", "events is empty", "declare at least one event")
	}
	for _, e := range n.entries {
		ev := &Event{Name: Name{e.key.text, e.key.pos}}
		c.events[e.key.text] = ev
		c.model.Events = append(c.model.Events, ev)
		c.readEvent(e, ev)
	}
}

func (c *checker) readEvent(e entry, ev *Event) {
	what := "the event " + quote(e.key.text)
	if c.checkName(e.key, e.key.text, eventName) {
		ev.GoName = goName(e.key.text)
	} else {
		c.meant[meantName(e.key.text)] = true
	}
	o, ok := c.object(e.key, e.val, what, c.andInLock("retired",
		"doc", "deprecated", "aggregate", "source", "fields", "versions", "upcast", "reserved", "broker", "go_name")...)
	if !ok {
		return
	}
	c.retiredVersions(o, ev)
	for _, key := range []string{"upcast", "reserved"} {
		if o.has(key) {
			c.problem(o.vals[key].key, "misplaced-key", fmt.Sprintf("%s of %s belongs to one of its versions", key, what),
				"list the versions under versions:, and put it there")
		}
	}
	ev.Doc = c.prose(o)
	ev.Deprecated = c.deprecated(o)
	ev.GoName = c.goNameOf(o, ev.GoName)
	if ev.GoName != "" {
		c.claimNames(e.key, "event "+quote(e.key.text),
			ev.GoName, "Write"+ev.GoName, "Reconcile"+ev.GoName, "EventType"+ev.GoName)
	}
	c.eventVersions(o, ev, what)
	if o.has("aggregate") {
		c.aggregate(o.vals["aggregate"], ev, what)
	} else {
		c.problem(e.key, "missing-key", what+` lacks the key "aggregate"`, "write aggregate: { type: order, id: order_id, version: order_version }")
	}
	if o.has("source") {
		c.eventSource(o.vals["source"], ev, what)
	}
	c.eventBroker(o, ev, what)
}

// aggregate reads what the event is about.
func (c *checker) aggregate(e entry, ev *Event, what string) {
	o, ok := c.object(e.key, e.val, "aggregate of "+what, "type", "id", "version")
	if !ok {
		return
	}
	if n := c.required(o, "type"); n != nil {
		ev.Aggregate.Type, _ = c.name(n, aggregateTyp)
	}
	id, version := c.required(o, "id"), c.required(o, "version")
	if id != nil {
		ev.Aggregate.ID = c.aggregateName(id, "id")
	}
	if version != nil {
		ev.Aggregate.Version = c.aggregateName(version, "version")
	}
	for i, v := range ev.Versions {
		if v.Fields == nil { // could not be read at all: nothing is said about their names
			continue
		}
		v.ID = c.aggregateField(id, ev.Aggregate.ID, v, "id", KindString, KindInt32, KindInt64, KindUUID)
		v.AggregateVersion = c.aggregateField(version, ev.Aggregate.Version, v, "version", KindInt32, KindInt64)
		if f := v.ID; f != nil && f == v.AggregateVersion {
			c.problem(version, "aggregate-field", "the aggregate's id and version are the same field", "name a field that counts the aggregate's changes")
			return
		}
		if i > 0 {
			c.checkSameID(ev.Versions[i-1], v)
		}
	}
}

// checkSameID reports an id whose text differs between versions. The text is what lanes,
// order and dropped stale events go by: one aggregate would become two.
func (c *checker) checkSameID(before, v *Version) {
	old, now := before.ID, v.ID
	if old == nil || now == nil || old.Type == nil || now.Type == nil || old.Type.Kind == now.Type.Kind || isInteger(old.Type) && isInteger(now.Type) {
		return
	}
	c.problem(&node{pos: now.Name.Pos}, "aggregate-field",
		fmt.Sprintf("the aggregate's id %s is %s, and was %s in version %d: one aggregate would be taken for two", quote(now.Name.Text), now.Type, old.Type, before.Number),
		fmt.Sprintf("keep %s, or declare a new event with an id of the new type", old.Type),
		diag.Related{Pos: old.Name.Pos, Message: fmt.Sprintf("it was %s here", old.Type)})
}

func isInteger(t *Type) bool { return t.Kind == KindInt32 || t.Kind == KindInt64 }

func (c *checker) aggregateName(n *node, role string) Name {
	text, ok := c.scalar(n, "the aggregate's "+role)
	if !ok {
		return Name{}
	}
	return Name{Text: text, Pos: n.pos}
}

func (c *checker) aggregateField(n *node, name Name, v *Version, role string, kinds ...Kind) *Field {
	if name.Text == "" {
		return nil
	}
	var names []string
	for _, f := range v.Fields {
		if f.Name.Text == name.Text {
			c.checkAggregateField(n, f, role, kinds)
			return f
		}
		names = append(names, f.Name.Text)
	}
	whose := "the event"
	if v.Listed {
		whose = fmt.Sprintf("version %d of the event", v.Number)
	}
	c.problem(n, "unknown-field", fmt.Sprintf("the aggregate's %s names the field %s, which %s does not have", role, quote(name.Text), whose),
		c.didYouMean(name.Text, names))
	return nil
}

func (c *checker) checkAggregateField(n *node, f *Field, role string, kinds []Kind) {
	declared := diag.Related{Pos: f.Name.Pos, Message: "the field is declared here"}
	what := fmt.Sprintf("the aggregate's %s %s", role, quote(f.Name.Text))
	if f.Optional {
		c.problem(n, "aggregate-field", what+" is an optional field", "make the field required", declared)
	}
	if f.PII {
		c.problem(n, "aggregate-field", what+" is marked pii, but the "+role+" stands in rows, logs and message headers", "name a field that identifies nobody", declared)
	}
	if f.Type != nil && !slices.Contains(kinds, f.Type.Kind) {
		c.problem(n, "aggregate-field", fmt.Sprintf("%s has the type %s", what, f.Type), "the type must be "+oneOf(kinds), declared)
	}
}

func oneOf(kinds []Kind) string {
	text := string(kinds[0])
	for i, k := range kinds[1:] {
		if i == len(kinds)-2 {
			text += " or " + string(k)
		} else {
			text += ", " + string(k)
		}
	}
	return text
}

func (c *checker) eventSource(e entry, ev *Event, what string) {
	o, ok := c.object(e.key, e.val, "source of "+what, "table", "request", "event_id", "aggregate_id", "created_at", "rebuild")
	if !ok {
		return
	}
	src := &Source{Pos: e.key.pos}
	ev.Source = src
	if n := c.required(o, "table"); n != nil {
		src.Table, _ = c.name(n, tableName)
	}
	for _, column := range []struct {
		key  string
		into *Name
	}{{"event_id", &src.EventID}, {"aggregate_id", &src.AggregateID}, {"created_at", &src.CreatedAt}} {
		if n := c.required(o, column.key); n != nil {
			*column.into, _ = c.name(n, columnName)
		}
	}
	if n := c.optional(o, "rebuild"); n != nil {
		src.Rebuild = c.rebuild(n)
	}
	n := c.required(o, "request")
	if n == nil {
		return
	}
	first := map[string]diag.Pos{}
	for _, item := range c.listOrOne(n, "request", "request: [tenant_id, request_id]") {
		name, ok := c.name(item, columnName)
		if !ok {
			continue
		}
		if pos, twice := first[name.Text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the column %s appears twice", quote(name.Text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[name.Text] = item.pos
		src.Request = append(src.Request, name)
	}
}

// rebuild is the file with the statement that makes a payload anew.
func (c *checker) rebuild(n *node) Name {
	name, ok := c.path(n, "source.rebuild")
	if ok && path.Ext(name.Text) != ".sql" {
		c.problem(n, "bad-path", fmt.Sprintf("source.rebuild %s is not a file of SQL", quote(name.Text)), "name a file of yours that ends in .sql, such as db/rebuild/order_accepted.sql")
		return Name{}
	}
	return name
}

// checkRebuilds reports a statement of the user's that lies among generated files, or among
// the tables that sqlc reads.
func (c *checker) checkRebuilds() {
	m := c.model
	folders := append([]Name{m.Go.Out, m.Exports.Out, m.SQL.Queries}, m.SQL.Schema...)
	whose := []string{"go.out", "exports.out", "sql.queries"}
	for _, e := range m.Events {
		if e.Source == nil || e.Source.Rebuild.Text == "" {
			continue
		}
		file := e.Source.Rebuild
		for i, folder := range folders {
			if folder.Text == "" || folder.Text != "." && file.Text != folder.Text && !strings.HasPrefix(file.Text, folder.Text+"/") {
				continue
			}
			what, hint := "sql.schema", "which sqlc reads tables from; put it into another folder"
			if i < len(whose) {
				what, hint = whose[i], "which has generated files; put it into a folder of yours"
			}
			c.problem(&node{pos: file.Pos}, "bad-path", fmt.Sprintf("source.rebuild %s is in %s", quote(file.Text), what), "that is a folder "+hint)
			break
		}
	}
}
