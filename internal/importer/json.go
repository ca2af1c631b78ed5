package importer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// json reads JSON by its own rules: YAML's are other ones for tabs and for escapes
// of characters beyond 16 bits.
func (r *reader) json() (*node, error) {
	d := json.NewDecoder(bytes.NewReader(r.src))
	d.UseNumber()
	return r.jsonValue(d, 0)
}

func (r *reader) jsonValue(d *json.Decoder, depth int) (*node, error) {
	pos := r.jsonPos(d.InputOffset())
	if err := r.count(pos, depth); err != nil {
		return nil, err
	}
	token, err := d.Token()
	if err != nil {
		return nil, &refusal{pos, "the file is not JSON: " + err.Error(), ""}
	}
	n := &node{pos: pos}
	switch v := token.(type) {
	case nil:
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(v)
	case json.Number:
		n.kind, n.text = kindNumber, v.String()
	case string:
		n.kind, n.text = kindString, v
	case json.Delim:
		if v == '[' {
			return n, r.jsonList(d, n, depth)
		}
		return n, r.jsonMapping(d, n, depth)
	}
	return n, nil
}

func (r *reader) jsonList(d *json.Decoder, n *node, depth int) error {
	n.kind = kindList
	for d.More() {
		child, err := r.jsonValue(d, depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, child)
	}
	_, err := d.Token()
	return err
}

func (r *reader) jsonMapping(d *json.Decoder, n *node, depth int) error {
	n.kind = kindMapping
	seen := map[string]bool{}
	for d.More() {
		pos := r.jsonPos(d.InputOffset())
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return &refusal{pos, fmt.Sprintf("the key %q appears twice", printable(key)), "remove or rename one of them"}
		}
		seen[key] = true
		child, err := r.jsonValue(d, depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key, child, pos})
	}
	_, err := d.Token()
	return err
}

// jsonPos is the place of the value that comes after offset. Offsets only grow.
func (r *reader) jsonPos(offset int64) diag.Pos {
	at := int(offset)
	for at < len(r.src) && bytes.IndexByte([]byte(" \t\r\n,:"), r.src[at]) >= 0 {
		at++
	}
	for {
		next := bytes.IndexByte(r.src[r.lineStart:at], '\n')
		if next < 0 {
			break
		}
		r.lineStart += next + 1
		r.line++
	}
	return diag.Pos{File: r.file, Line: r.line + 1, Col: at - r.lineStart + 1}
}
