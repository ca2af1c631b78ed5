package export

import (
	"bytes"
	"encoding/json"
	"strings"
)

// object is a JSON object whose members keep the order in which a reader wants them.
type object []member

type member struct {
	key   string
	value any // object, []any, json.RawMessage, string, bool, int, []string
}

func (o *object) set(key string, value any) { *o = append(*o, member{key, value}) }

// text sets a member unless the text is empty.
func (o *object) text(key, value string) {
	if value != "" {
		o.set(key, value)
	}
}

// jsonFile is o as a file, with our header in its first member.
func jsonFile(o object) []byte {
	var b bytes.Buffer
	writeJSON(&b, append(object{{"$comment", header}}, o...), 0)
	b.WriteByte('\n')
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, v any, depth int) {
	switch v := v.(type) {
	case object:
		writeLines(b, '{', '}', depth, len(v), func(i int) {
			b.Write(scalarJSON(v[i].key))
			b.WriteString(": ")
			writeJSON(b, v[i].value, depth+1)
		})
	case []any:
		writeLines(b, '[', ']', depth, len(v), func(i int) { writeJSON(b, v[i], depth+1) })
	case []string:
		for i, s := range v {
			b.WriteString([]string{"[", ", "}[min(i, 1)])
			b.Write(scalarJSON(s))
		}
		b.WriteString("]")
	default:
		b.Write(scalarJSON(v))
	}
}

func writeLines(b *bytes.Buffer, begin, end byte, depth, n int, item func(int)) {
	b.WriteByte(begin)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + strings.Repeat("  ", depth+1))
		item(i)
	}
	if n > 0 {
		b.WriteString("\n" + strings.Repeat("  ", depth))
	}
	b.WriteByte(end)
}

// scalarJSON encodes what can't fail: texts, numbers, booleans. Angle brackets stay as
// they are, for the files are no part of an HTML page.
func scalarJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of a type that no caller gives
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
