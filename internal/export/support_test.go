package export_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// goodFiles are every events.yaml that the parser's own tests take for good, and the
// example's.
func goodFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../spec/testdata/good/*/events.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found only %d good files: %v", len(files), err)
	}
	return append(files, "../../events.yaml")
}

func load(t *testing.T, file string) *spec.Model {
	t.Helper()
	model, problems := spec.Load(file)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return model
}

func parse(t *testing.T, text string) *spec.Model {
	t.Helper()
	model, problems := spec.Parse("events.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return model
}

// compile reads a schema, and fails where its meta schema does not take it.
func compile(t *testing.T, data []byte) *jsonschema.Schema {
	t.Helper()
	return compileDoc(t, readJSON(t, data))
}

func compileDoc(t *testing.T, doc any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://test.example/schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("https://test.example/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func readJSON(t *testing.T, data []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return doc
}

// readYAML reads a file as an editor does: keys are texts, whatever they look like.
func readYAML(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return plain(t, &doc)
}

func plain(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(t, n.Content[0])
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plain(t, item))
		}
		return list
	}
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
