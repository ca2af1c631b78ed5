package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// isSuggesting is false when there are so many findings that searching for a
// near name for each would be quadratic in the size of the file.
func (c *checker) isSuggesting() bool { return len(c.problems) < maxSuggested }

// didYouMean returns a hint with the candidate nearest to word, or "".
func (c *checker) didYouMean(word string, candidates []string) string {
	if !c.isSuggesting() {
		return ""
	}
	if s, ok := otherFormats()[strings.ToLower(word)]; ok && slices.Contains(candidates, s) {
		return fmt.Sprintf("did you mean %q?", s)
	}
	if s := diag.Nearest(word, candidates); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return ""
}

// otherFormats are the words that OpenAPI, AsyncAPI, JSON Schema, Protocol
// Buffers and sqlc use for our keys.
func otherFormats() map[string]string {
	return map[string]string{
		"description": "doc", "desc": "doc", "comment": "doc", "summary": "doc", "title": "doc", "documentation": "doc",
		"nullable": "optional", "properties": "fields", "payload": "fields", "schema": "fields", "values": "enum",
		"schemas": "types", "definitions": "types", "messages": "events", "topics": "events", "handlers": "consumers",
		"subscribers": "consumers", "events": "handles", "consumes": "handles", "subscribes": "handles",
		"retention": "retain", "name": "go_name", "goname": "go_name", "engine": "dialect", "order": "ordering",
		"output": "out", "path": "out", "prefix": "table_prefix", "sensitive": "pii", "kind": "type",
	}
}
