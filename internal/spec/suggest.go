package spec

import (
	"fmt"
	"slices"
	"strings"
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
	if s := nearest(word, candidates); s != "" {
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

// nearest returns the candidate with the fewest edits from word, if that is
// few enough to be a slip: one edit in three characters.
func nearest(word string, candidates []string) string {
	const longest = 64
	if word == "" || len(word) > longest {
		return ""
	}
	best, bestEdits := "", max(1, len(word)/3)+1
	for _, candidate := range candidates {
		if len(candidate) > longest || len(candidate)-len(word) >= bestEdits || len(word)-len(candidate) >= bestEdits {
			continue
		}
		if edits := distance(strings.ToLower(word), strings.ToLower(candidate)); edits < bestEdits {
			best, bestEdits = candidate, edits
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours (Damerau and Levenshtein's, restricted) between a and b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
