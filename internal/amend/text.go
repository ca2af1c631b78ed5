package amend

import (
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"
)

// text is a file as lines, with what YAML makes of it.
type text struct {
	src   []byte
	eol   string
	lines [][]byte // without their ends
	root  *yaml.Node
}

func read(src []byte) (*text, error) {
	t := &text{src: src, eol: "\n"}
	if bytes.Contains(src, []byte("\r\n")) {
		t.eol = "\r\n"
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil || len(doc.Content) == 0 {
		return nil, &Refusal{"the file can't be read as YAML", "run outboxgen check"}
	}
	t.root = doc.Content[0]
	if t.root.Kind != yaml.MappingNode || t.root.Style&yaml.FlowStyle != 0 {
		return nil, &Refusal{"the whole file is written between braces, and nothing can be added there line by line", "write it on lines of their own first"}
	}
	for _, line := range bytes.Split(bytes.TrimSuffix(src, []byte("\n")), []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if string(bytes.TrimRight(line, " \t")) == "..." {
			return nil, &Refusal{`the file ends with "...", and nothing can stand behind it`, "remove that line, and run it again"}
		}
		t.lines = append(t.lines, line)
	}
	return t, nil
}

// section is the value of a top-level key, and the line of the key after it, counted
// from 0; the number of lines for the last one.
func (t *text) section(key string) (value *yaml.Node, next int) {
	for i := 0; i+1 < len(t.root.Content); i += 2 {
		if t.root.Content[i].Value != key {
			continue
		}
		if i+2 < len(t.root.Content) {
			return t.root.Content[i+1], t.root.Content[i+2].Line - 1
		}
		return t.root.Content[i+1], len(t.lines)
	}
	return nil, 0
}

// insert puts lines before the line at, counted from 0.
func (t *text) insert(at int, lines []string) []byte {
	var out []string
	for i, line := range t.lines {
		if i == at {
			out = append(out, lines...)
		}
		out = append(out, string(line))
	}
	if at >= len(t.lines) {
		out = append(out, lines...)
	}
	return []byte(strings.Join(out, t.eol) + t.eol)
}

// step is by how many spaces the entries of a section indent what is theirs.
func (t *text) step(section *yaml.Node) int {
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 && value.Line > key.Line {
			return max(1, value.Content[0].Column-key.Column)
		}
	}
	return 2
}

// hasGaps reports a section whose entries have empty lines between them.
func (t *text) hasGaps(section *yaml.Node) bool {
	for i := 2; i < len(section.Content); i += 2 {
		above := section.Content[i].Line - 2
		for above > 0 && bytes.HasPrefix(bytes.TrimSpace(t.lines[above]), []byte("#")) {
			above--
		}
		if above > 0 && len(bytes.TrimSpace(t.lines[above])) == 0 {
			return true
		}
	}
	return false
}
