package importer

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

func (im *importer) newEvent(name string, at *node) *event {
	e := &event{name: im.names.event(name), pos: at.pos}
	e.orig = changed(name, e.name)
	im.out.renamed = im.out.renamed || e.orig != ""
	im.out.events = append(im.out.events, e)
	return e
}

// eventFields gives an event the fields of its payload, and an aggregate.
func (im *importer) eventFields(e *event, payload, at *node) {
	p := place{label: e.name, name: spec.GoName(e.name), todos: &e.todos}
	target := payload
	if payload != nil {
		var why string
		if target, _, why = im.deref(payload); target == nil {
			im.note(payload, e.name, &e.todos, "%s", why)
		}
	}
	switch {
	case target == nil:
		if payload == nil {
			im.note(at, e.name, &e.todos, "it has no payload that can be read")
		}
	case im.isStruct(target):
		im.leftovers(target, p)
		e.fields = im.fields(target, p)
		if e.doc == "" {
			e.doc = target.str("description")
		}
		if target.get("deprecated").isTrue() && e.deprecated == "" {
			e.deprecated = "the source says so, and not why"
		}
	default:
		f := &field{name: "payload", pos: payload.pos, doc: "All of the payload: in the source it is no object."}
		f.shape, _ = im.shapeOf(payload, place{e.name, p.name + " payload", true, &f.todos})
		im.note(payload, e.name, &f.todos, "a payload that is no object with properties")
		e.fields = []*field{f}
	}
	im.out.aggregate(e)
}

// aggregate guesses what an event is about. Fields that it doesn't have are made up:
// without them there is no order of events.
func (d *document) aggregate(e *event) {
	first, _, _ := strings.Cut(e.name, ".")
	first, _, _ = strings.Cut(first, "-")
	e.aggregateType = legal(first, "aggregate", 60, spec.RepairAggregateType)
	integers, ids := []string{"int32", "int64"}, []string{"int64", "string", "uuid", "int32"}
	e.id = e.find([]string{first + "_id", "aggregate_id", "id"}, "_id", ids, nil)
	e.version = e.find([]string{first + "_version", "aggregate_version", "version", "sequence"}, "_version", integers, e.id)
	if e.id == nil {
		e.id = e.makeUp("aggregate_id", "string")
	}
	if e.version == nil {
		e.version = e.makeUp("aggregate_version", "int64")
	}
}

// find looks for a required field by its name, then by the name's end.
func (e *event) find(names []string, suffix string, types []string, not *field) *field {
	fits := func(f *field) bool {
		return f != not && !f.optional && f.gone == "" && slices.Contains(types, f.shape.String()) && f.shape.enum == nil
	}
	for _, name := range names {
		for _, f := range e.fields {
			if f.name == name && fits(f) {
				return f
			}
		}
	}
	for _, f := range e.fields {
		if strings.HasSuffix(f.name, suffix) && fits(f) {
			return f
		}
	}
	return nil
}

func (e *event) makeUp(name, kind string) *field {
	taken := newNames()
	for _, f := range e.fields {
		taken.taken[spec.GoName(f.name)] = true
	}
	f := &field{name: fieldName(name, taken), shape: scalar(kind), todos: []string{"made up: the source has no such field"}}
	e.fields = append(e.fields, f)
	return f
}
