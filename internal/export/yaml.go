package export

import (
	"bytes"
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// yamlFile is o as a file, below our header.
func yamlFile(o object) []byte {
	var b bytes.Buffer
	b.WriteString("# " + header + "\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(o)); err != nil {
		panic(err) // of a value that no caller gives
	}
	return b.Bytes()
}

func yamlNode(v any) *yaml.Node {
	switch v := v.(type) {
	case object:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: emptyFlow(len(v))}
		for _, m := range v {
			n.Content = append(n.Content, yamlNode(m.key), yamlNode(m.value))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: emptyFlow(len(v))}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item))
		}
		return n
	case []string:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item))
		}
		return n
	case json.RawMessage: // JSON is YAML; a number keeps its digits
		var doc yaml.Node
		if err := yaml.Unmarshal(v, &doc); err != nil {
			panic(err)
		}
		return doc.Content[0]
	}
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		panic(err)
	}
	return &n
}

func emptyFlow(n int) yaml.Style {
	if n == 0 {
		return yaml.FlowStyle
	}
	return 0
}
