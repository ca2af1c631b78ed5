package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Caps on what is read. They keep a hostile document from costing memory or time;
// descriptions of real systems stay far below.
const (
	MaxSize   = 4 << 20 // bytes
	maxDepth  = 100     // nested mappings and lists
	maxNodes  = 200_000
	maxShapes = 20_000 // schemas looked at, those behind a reference each time
)

// node is a part of the document, YAML or JSON.
type node struct {
	kind    kind
	text    string // of a scalar
	items   []*node
	entries []entry
	pos     diag.Pos
}

type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindMapping
)

type entry struct {
	key string
	val *node
	pos diag.Pos
}

// get is the value of a key, or nil.
func (n *node) get(key string) *node {
	if n != nil {
		for _, e := range n.entries {
			if e.key == key {
				return e.val
			}
		}
	}
	return nil
}

// str is the text of a key's value, "" where it is no text.
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == kindString {
		return v.text
	}
	return ""
}

func (n *node) isTrue() bool { return n != nil && n.kind == kindBool && n.text == "true" }

// refusal is why a document can't be read.
type refusal struct {
	pos           diag.Pos
	message, hint string
}

func (r *refusal) Error() string { return r.message }

// read parses src, as JSON if it begins like it.
func read(file string, src []byte) (*node, error) {
	if len(src) > MaxSize {
		return nil, &refusal{diag.Pos{File: file}, fmt.Sprintf("the file is larger than %d MiB", MaxSize>>20), "import its parts one by one"}
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	r := &reader{file: file, src: src}
	if trimmed := bytes.TrimSpace(src); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(src) {
		return r.json()
	}
	return r.yaml()
}

type reader struct {
	file  string
	src   []byte
	nodes int

	line, lineStart int // of the last position that was asked for, for JSON

	lines [][]byte // for YAML
}

// yamlPos counts bytes in a line, in which the library counts characters. Long lines,
// for which it would take long, stay as the library counts them.
func (r *reader) yamlPos(y *yaml.Node) diag.Pos {
	const long = 4096 // bytes
	if r.lines == nil {
		r.lines = bytes.Split(r.src, []byte("\n"))
	}
	pos := diag.Pos{File: r.file, Line: y.Line, Col: y.Column}
	if y.Line < 1 || y.Line > len(r.lines) || len(r.lines[y.Line-1]) > long {
		return pos
	}
	left := y.Column - 1
	for i := range string(r.lines[y.Line-1]) {
		if left == 0 {
			pos.Col = i + 1
			break
		}
		left--
	}
	return pos
}

// count notes another node and refuses what is too large or too deep.
func (r *reader) count(pos diag.Pos, depth int) error {
	r.nodes++
	switch {
	case depth > maxDepth:
		return &refusal{pos, fmt.Sprintf("nested more than %d levels deep", maxDepth), "give the inner parts names, and refer to them by $ref"}
	case r.nodes > maxNodes:
		return &refusal{pos, fmt.Sprintf("the document has more than %d values", maxNodes), "import its parts one by one"}
	}
	return nil
}

func (r *reader) yaml() (root *node, err error) {
	defer func() { // the library panics on some input
		if recover() != nil {
			root, err = nil, &refusal{diag.Pos{File: r.file}, "the file is no YAML that can be read", ""}
		}
	}()
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(r.src))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &refusal{diag.Pos{File: r.file}, "the file is empty", ""}
	case err != nil:
		return nil, yamlRefusal(r.file, err)
	}
	return r.fromYAML(&doc, 0)
}

// yamlRefusal takes the line out of the library's message, where there is one.
func yamlRefusal(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	pos := diag.Pos{File: file}
	var line int
	if n, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil && n == 1 {
		_, text, _ = strings.Cut(text, ": ")
		pos.Line = line
	}
	return &refusal{pos, "the file is neither YAML nor JSON: " + printable(text), ""}
}

func (r *reader) fromYAML(y *yaml.Node, depth int) (*node, error) {
	pos := r.yamlPos(y)
	if err := r.count(pos, depth); err != nil {
		return nil, err
	}
	n := &node{pos: pos, text: y.Value}
	switch y.Kind {
	case yaml.DocumentNode:
		return r.fromYAML(y.Content[0], depth)
	case yaml.AliasNode:
		return nil, &refusal{pos, fmt.Sprintf("the alias *%s is not read", printable(y.Value)), "write the part out, or refer to it by $ref: a few aliases can stand for millions of values"}
	case yaml.SequenceNode:
		n.kind = kindList
		for _, item := range y.Content {
			child, err := r.fromYAML(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, child)
		}
	case yaml.MappingNode:
		n.kind = kindMapping
		return n, r.yamlEntries(y, n, depth)
	default:
		n.kind = scalarKind(y)
	}
	return n, nil
}

func scalarKind(y *yaml.Node) kind {
	switch y.ShortTag() {
	case "!!null":
		return kindNull
	case "!!bool":
		return kindBool
	case "!!int", "!!float":
		return kindNumber
	}
	return kindString
}

func (r *reader) yamlEntries(y *yaml.Node, n *node, depth int) error {
	seen := map[string]bool{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		pos := r.yamlPos(key)
		switch {
		case key.Kind != yaml.ScalarNode:
			return &refusal{pos, "a key of the document is not a text", ""}
		case key.ShortTag() == "!!merge":
			return &refusal{pos, "the merge key << is not read", "write the keys out"}
		case seen[key.Value]:
			return &refusal{pos, fmt.Sprintf("the key %q appears twice", printable(key.Value)), "remove or rename one of them"}
		}
		seen[key.Value] = true
		child, err := r.fromYAML(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key.Value, child, pos})
	}
	return nil
}
