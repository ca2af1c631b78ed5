package importer

import (
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// asyncAPI reads an AsyncAPI document: messages become events, what the application
// receives becomes consumers.
func (im *importer) asyncAPI() error {
	version := im.root.get("asyncapi")
	if version == nil {
		return &refusal{im.root.pos, `the document has no key "asyncapi"`, "outboxgen import jsonschema reads JSON Schema"}
	}
	title := im.root.get("info").str("title")
	im.out.source = "AsyncAPI " + version.text
	im.head(title)
	switch {
	case strings.HasPrefix(version.text, "2."):
		im.channels2()
	case strings.HasPrefix(version.text, "3."):
		im.channels3()
	default:
		return &refusal{version.pos, "AsyncAPI " + printable(version.text) + " is not known", "versions 2.x and 3.x are read"}
	}
	// Messages that no channel has are described all the same.
	if messages := im.root.get("components").get("messages"); messages != nil {
		for _, e := range messages.entries {
			im.message(e.val, e.key)
		}
	}
	return nil
}

func (im *importer) head(title string) {
	im.out.service = legal(strings.ReplaceAll(title, ".", "-"), "service", 50, spec.RepairService)
	im.out.pkg = strings.TrimSuffix(strings.ReplaceAll(im.out.service, "-", ""), "events") + "events"
	if spec.RepairPackage(im.out.pkg) != im.out.pkg {
		im.out.pkg = "serviceevents"
	}
}

// channels2 reads version 2, in which publish is what others publish: the application
// receives it.
func (im *importer) channels2() {
	channels := im.root.get("channels")
	if channels == nil {
		return
	}
	for _, e := range channels.entries {
		channel := im.referredPart(e.val, e.key)
		if sent := channel.get("subscribe"); sent != nil {
			im.messages2(sent, e.key)
		}
		received := channel.get("publish")
		if received == nil {
			continue
		}
		name := received.str("operationId")
		if name == "" {
			name = im.out.service + "-" + e.key
		}
		im.consumer(received, name, im.messages2(received, e.key))
	}
}

// messages2 are the events of an operation of version 2: one message, or one of several.
func (im *importer) messages2(operation *node, channel string) []*event {
	message := operation.get("message")
	if message == nil {
		return nil
	}
	several := message.get("oneOf")
	if several == nil {
		return asList(im.message(message, channel))
	}
	var events []*event
	for _, m := range several.items {
		events = append(events, asList(im.message(m, channel))...)
	}
	return events
}

func asList(e *event) []*event {
	if e == nil {
		return nil
	}
	return []*event{e}
}

// channels3 reads version 3, in which operations stand apart from channels.
func (im *importer) channels3() {
	ofChannel := map[*node][]*event{}
	if channels := im.root.get("channels"); channels != nil {
		for _, e := range channels.entries {
			channel := im.referredPart(e.val, e.key)
			if messages := channel.get("messages"); messages != nil {
				for _, m := range messages.entries {
					ofChannel[channel] = append(ofChannel[channel], asList(im.message(m.val, m.key))...)
				}
			}
		}
	}
	operations := im.root.get("operations")
	if operations == nil {
		return
	}
	for _, e := range operations.entries {
		operation := im.referredPart(e.val, e.key)
		if operation.str("action") != "receive" {
			continue
		}
		channel := im.referredPart(operation.get("channel"), e.key)
		events := ofChannel[channel]
		if some := operation.get("messages"); some != nil {
			events = nil
			for _, m := range some.items {
				events = append(events, asList(im.message(m, e.key))...)
			}
		}
		im.consumer(operation, e.key, events)
	}
}

// referredPart is deref for parts that are no schemas; nil, which has no keys, where
// there is nothing.
func (im *importer) referredPart(n *node, label string) *node {
	if n == nil {
		return nil
	}
	target, _, why := im.deref(n)
	if target == nil {
		im.note(n, label, nil, "%s", why)
	}
	return target
}

// message makes an event of a message, once.
func (im *importer) message(n *node, fallback string) *event {
	target, refName, why := im.deref(n)
	if target == nil {
		im.note(n, fallback, nil, "%s", why)
		return nil
	}
	if target.kind != kindMapping {
		im.note(target, fallback, nil, "it is no message")
		return nil
	}
	if e := im.events[target]; e != nil {
		return e
	}
	name := target.str("name")
	for _, other := range []string{refName, fallback} {
		if name == "" {
			name = other
		}
	}
	e := im.newEvent(name, target)
	im.events[target] = e
	for _, key := range []string{"description", "summary", "title"} {
		if e.doc == "" {
			e.doc = target.str(key)
		}
	}
	if target.get("deprecated").isTrue() {
		e.deprecated = "the source says so, and not why"
	}
	for _, entry := range target.entries {
		switch entry.key {
		case "headers":
			im.note(entry.val, e.name, &e.todos, "headers: messages here have those of CloudEvents")
		case "traits", "correlationId":
			im.note(entry.val, e.name, &e.todos, "%s of the message", entry.key)
		case "contentType":
			if !strings.Contains(entry.val.text, "json") {
				im.note(entry.val, e.name, &e.todos, "contentType: %s: payloads are JSON here", entry.val.text)
			}
		}
	}
	im.payload(e, target)
	return e
}

// payload reads the schema of a message, which may say in which language it is.
func (im *importer) payload(e *event, message *node) {
	payload := message.get("payload")
	format := message.str("schemaFormat")
	if payload != nil && payload.get("schemaFormat") != nil && payload.get("schema") != nil {
		format = payload.str("schemaFormat")
		payload = payload.get("schema")
	}
	if format != "" && !strings.Contains(format, "asyncapi") && !strings.Contains(format, "schema+json") && !strings.Contains(format, "schema+yaml") {
		im.note(message, e.name, &e.todos, "a payload in %s", format)
		payload = nil
	}
	im.eventFields(e, payload, message)
}

func (im *importer) consumer(operation *node, name string, events []*event) {
	c := &consumer{name: im.names.consumer(name), pos: operation.pos}
	c.orig = changed(name, c.name)
	for _, key := range []string{"description", "summary", "title"} {
		if c.doc == "" {
			c.doc = operation.str(key)
		}
	}
	for _, e := range events {
		seen := false
		for _, have := range c.handles {
			seen = seen || have == e
		}
		if !seen {
			c.handles = append(c.handles, e)
		}
	}
	if len(c.handles) == 0 {
		im.note(operation, name, nil, "it receives no message that is described")
		return
	}
	c.todos = append(c.todos, "the source receives these: if another service writes them, the consumer belongs into that service's file")
	im.out.consumers = append(im.out.consumers, c)
}
