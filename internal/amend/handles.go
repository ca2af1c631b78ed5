package amend

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// addToHandles adds an event to a consumer that is there.
func addToHandles(src []byte, consumer, event string) ([]byte, error) {
	t, err := read(src)
	if err != nil {
		return nil, err
	}
	section, _ := t.section("consumers")
	list := child(child(section, consumer), "handles")
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, &Refusal{fmt.Sprintf("the handles of %q are no list", consumer), "add the event by hand"}
	}
	last := list.Content[len(list.Content)-1]
	line := string(t.lines[last.Line-1])
	from := byteOffset(line, last.Column)
	if list.Style&yaml.FlowStyle == 0 {
		if !strings.HasSuffix(strings.TrimRight(line[:from], " "), "-") {
			return nil, &Refusal{fmt.Sprintf("the handles of %q are written in an unusual form", consumer), "add the event by hand"}
		}
		return t.insert(last.Line, []string{line[:from] + scalar(event)}), nil
	}
	length := len(last.Value)
	if last.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		length += 2
	}
	if from+length > len(line) {
		return nil, &Refusal{fmt.Sprintf("the handles of %q are written in an unusual form", consumer), "add the event by hand"}
	}
	lines := bytes.Clone(src)
	offset := t.offset(last.Line) + from + length
	return append(append(bytes.Clone(lines[:offset]), ", "+scalar(event)...), lines[offset:]...), nil
}

// offset is that of a line in the source; lines count from 1.
func (t *text) offset(line int) int {
	offset := 0
	for range line - 1 {
		offset += bytes.IndexByte(t.src[offset:], '\n') + 1
	}
	return offset
}

// byteOffset is that of a column, which the YAML library counts in characters.
func byteOffset(line string, column int) int {
	n := 1
	for i := range line {
		if n == column {
			return i
		}
		n++
	}
	return len(line)
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
