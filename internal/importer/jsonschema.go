package importer

import (
	"path"
	"path/filepath"
	"strings"
)

// jsonSchema reads a JSON Schema: an object at the top is an event, and so is each
// schema of a union at the top. Where the top holds definitions alone, those that no
// other refers to are events.
func (im *importer) jsonSchema() error {
	if im.root.get("asyncapi") != nil {
		return &refusal{im.root.pos, "the document is AsyncAPI", "outboxgen import asyncapi reads it"}
	}
	im.out.source = "a JSON Schema"
	name := im.root.str("title")
	if name == "" {
		name = nameOfID(im.root.str("$id"))
	}
	if name == "" {
		name = nameOfID(filepath.ToSlash(im.file))
	}
	im.head(name)
	if im.root.get("$ref") != nil || im.isStruct(im.root) {
		im.schemaEvent(im.root, name)
		return nil
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if union := im.root.get(key); union != nil && len(union.items) > 0 {
			for _, item := range union.items {
				im.schemaEvent(item, name)
			}
			return nil
		}
	}
	referred := map[string]bool{}
	references(im.root, referred)
	for _, key := range []string{"$defs", "definitions"} {
		defs := im.root.get(key)
		if defs == nil {
			continue
		}
		for _, e := range defs.entries {
			if !referred["#/"+key+"/"+e.key] && im.isStruct(e.val) {
				im.schemaEvent(e.val, e.key)
			}
		}
	}
	return nil
}

func (im *importer) schemaEvent(n *node, name string) {
	target, refName, why := im.deref(n)
	if target == nil {
		im.note(n, name, nil, "%s", why)
		return
	}
	if im.events[target] != nil {
		return
	}
	if title := target.str("title"); title != "" {
		name = title
	} else if refName != "" {
		name = refName
	}
	e := im.newEvent(name, target)
	im.events[target] = e
	im.eventFields(e, n, n)
}

// references notes every $ref.
func references(n *node, found map[string]bool) {
	if ref := n.str("$ref"); ref != "" {
		found[ref] = true
	}
	for _, e := range n.entries {
		references(e.val, found)
	}
	for _, item := range n.items {
		references(item, found)
	}
}

// nameOfID is the last part of a URI or path, without endings such as .schema.json.
func nameOfID(id string) string {
	base := path.Base(strings.TrimRight(id, "#/"))
	if base == "." || base == "/" {
		return ""
	}
	for _, ending := range []string{".json", ".yaml", ".yml", ".schema"} {
		base = strings.TrimSuffix(base, ending)
	}
	return base
}
