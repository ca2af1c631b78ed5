package importer

import "slices"

// object is what the properties of a schema and of the schemas under its allOf say
// together.
type object struct {
	properties []entry
	required   map[string]bool
}

// isStruct reports a schema of an object with properties, by itself or by its allOf.
func (im *importer) isStruct(n *node) bool { return im.isStructIn(n, 0) }

func (im *importer) isStructIn(n *node, depth int) bool {
	const deepest = 20 // references may lead round
	if n == nil || depth > deepest {
		return false
	}
	if p := n.get("properties"); p != nil && p.kind == kindMapping && len(p.entries) > 0 {
		types, _ := typesOf(n)
		return slices.Equal(types, []string{"object"})
	}
	all := n.get("allOf")
	if all == nil || len(all.items) == 0 || im.shapes > maxShapes {
		return false
	}
	for _, part := range all.items {
		im.shapes++ // parts that name parts twice over grow as a power of two
		target, _, _ := im.deref(part)
		if !im.isStructIn(target, depth+1) && !isOnlyRequired(target) {
			return false
		}
	}
	return true
}

// isOnlyRequired reports { required: [a] }, which people put beside a reference.
func isOnlyRequired(n *node) bool {
	if n == nil || n.kind != kindMapping {
		return false
	}
	return !slices.ContainsFunc(n.entries, func(e entry) bool {
		return e.key != "required" && e.key != "type" && e.key != "description" && e.key != "title"
	})
}

// collect adds what a schema and its allOf say.
func (im *importer) collect(n *node, o *object, p place, depth int) {
	const deepest = 20
	if im.shapes++; depth > deepest || im.shapes > maxShapes {
		return
	}
	target, _, why := im.deref(n)
	if target == nil {
		im.note(n, p.label, p.todos, "%s", why)
		return
	}
	if depth > 0 {
		im.leftovers(target, p)
	}
	if all := target.get("allOf"); all != nil {
		for _, part := range all.items {
			im.collect(part, o, p, depth+1)
		}
	}
	im.openness(target, p)
	if req := target.get("required"); req != nil {
		for _, name := range req.items {
			o.required[name.text] = true
		}
	}
	props := target.get("properties")
	if props == nil {
		return
	}
	for _, e := range props.entries {
		same := func(have entry) bool { return have.key == e.key }
		if i := slices.IndexFunc(o.properties, same); i >= 0 {
			if o.properties[i].val != e.val {
				im.note(e.val, p.label, p.todos, "%s stands in several parts of allOf: the last is taken", e.key)
			}
			o.properties[i] = e
			continue
		}
		o.properties = append(o.properties, e)
	}
}

// openness notes what is asked of keys that aren't declared. That there be none is
// asked so often that it is said once.
func (im *importer) openness(n *node, p place) {
	switch extra := n.get("additionalProperties"); {
	case extra == nil || extra.isTrue():
	case extra.kind == kindMapping:
		im.note(extra, p.label, p.todos, "additionalProperties beside properties: unknown keys are passed over")
	case !im.closed:
		im.closed = true
		im.note(extra, p.label, nil, "additionalProperties: false, here and elsewhere: unknown keys are passed over")
	}
}

// fields makes the fields of an object.
func (im *importer) fields(n *node, p place) []*field {
	o := object{required: map[string]bool{}}
	im.collect(n, &o, p, 0)
	taken := newNames()
	for _, method := range []string{"Validate", "MarshalJSON", "UnmarshalJSON"} {
		taken.taken[method] = true
	}
	var fields []*field
	for _, e := range o.properties {
		f := &field{name: fieldName(e.key, taken), pos: e.pos}
		f.orig = changed(e.key, f.name)
		im.out.renamed = im.out.renamed || f.orig != ""
		s, a := im.shapeOf(e.val, place{p.label + "." + e.key, p.name + " " + e.key, true, &f.todos})
		f.shape, f.doc, f.deprecated, f.pii = s, a.doc, a.deprecated, a.pii
		f.optional = !o.required[e.key] || a.nullable
		if o.required[e.key] && a.nullable {
			im.note(e.val, p.label+"."+e.key, &f.todos, "required and nullable: absent and null are one thing here")
		}
		fields = append(fields, f)
	}
	return fields
}

// declare makes a type of a schema, once.
func (im *importer) declare(n *node, name string, p place) *typ {
	if t := im.types[n]; t != nil {
		return t
	}
	if name == "" {
		name = p.name
	}
	t := &typ{name: im.names.typ(name), pos: n.pos}
	im.types[n] = t
	im.out.types = append(im.out.types, t)
	if p.name != name {
		t.orig = changed(name, t.name)
	}
	t.doc = n.str("description")
	inner := place{label: t.name, name: t.name, todos: &t.todos}
	if im.isStruct(n) {
		if n.get("properties") == nil || p.name != name {
			im.leftovers(n, inner)
		}
		t.fields = im.fields(n, inner)
		return t
	}
	t.enum = texts(enumValues(n))
	return t
}
