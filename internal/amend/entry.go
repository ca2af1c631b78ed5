package amend

import (
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// eventText is an event to begin with. Its aggregate is the one that other events of
// the type have, fields and all.
func eventText(model *spec.Model, e Event) []string {
	id, idType := e.Aggregate+"_id", "int64"
	version, versionType := e.Aggregate+"_version", "int64"
	for _, other := range model.Events {
		if other.Aggregate.Type.Text == e.Aggregate {
			newest := other.Newest()
			id, idType = newest.ID.Name.Text, newest.ID.Type.String()
			version, versionType = newest.AggregateVersion.Name.Text, newest.AggregateVersion.Type.String()
			break
		}
	}
	id, version = fieldOr(id, "aggregate_id"), fieldOr(version, "aggregate_version")
	when := e.Name[strings.LastIndexByte(e.Name, '.')+1:]
	when = fieldOr(strings.ReplaceAll(when, "-", "_")+"_at", "occurred_at")
	return []string{
		scalar(e.Name) + ":",
		"  # doc: say when it is written, and what is true by then",
		fmt.Sprintf("  aggregate: { type: %s, id: %s, version: %s }", scalar(e.Aggregate), scalar(id), scalar(version)),
		"  fields:",
		fmt.Sprintf("    %s: %s", scalar(id), idType),
		fmt.Sprintf("    %s: %s", scalar(version), versionType),
		fmt.Sprintf("    %s: timestamp", when),
	}
}

// fieldOr is the name if it can be a field's.
func fieldOr(name, other string) string {
	if s := spec.RepairField(name); s != "" {
		return s
	}
	return other
}

func consumerText(name string, events []string) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = scalar(e)
	}
	return []string{
		scalar(name) + ":",
		"  # doc: say what it does with the events",
		"  handles: [" + strings.Join(names, ", ") + "]",
	}
}

// scalar is a name as it stands in YAML: some words are booleans to many readers.
func scalar(name string) string {
	switch name {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return `"` + name + `"`
	}
	return name
}
