package spec

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// longestBase is in bytes: base and file name together go with every message.
const longestBase = 255

// ExportFormats are the formats, in the order in which they are listed to a reader.
func ExportFormats() []ExportFormat {
	return []ExportFormat{ExportJSONSchema, ExportAsyncAPI, ExportEditor, ExportMarkdown, ExportHTML}
}

// exports reads what is written for readers other than the Go compiler.
func (c *checker) exports(top object) {
	e, ok := top.vals["exports"]
	if !ok {
		return
	}
	o, ok := c.object(e.key, e.val, "exports", "out", "formats", "schema_base")
	if !ok {
		return
	}
	x := &c.model.Exports
	x.Formats = ExportFormats()
	if n := c.required(o, "out"); n != nil {
		x.Out, _ = c.path(n, "exports.out")
		if config := c.model.SQL.Config.Text; x.Out.Text == config || strings.HasPrefix(x.Out.Text, config+"/") {
			c.problem(n, "bad-path", fmt.Sprintf("exports.out %s is a folder where sql.config is a file", quote(x.Out.Text)), "give it a folder of its own")
		}
	}
	if n := c.optional(o, "formats"); n != nil {
		x.Formats = c.exportFormats(n)
	}
	if n := c.optional(o, "schema_base"); n != nil {
		x.SchemaBase = c.schemaBase(n)
	}
}

func (c *checker) exportFormats(n *node) []ExportFormat {
	var formats []ExportFormat
	var names []string
	for _, f := range ExportFormats() {
		names = append(names, string(f))
	}
	first := map[string]diag.Pos{}
	for _, item := range c.listOrOne(n, "exports.formats", "formats: [jsonschema, html]") {
		text, ok := c.scalar(item, "a format of exports")
		if !ok {
			continue
		}
		pos, twice := first[text]
		switch {
		case twice:
			c.problem(item, "duplicate-value", fmt.Sprintf("the format %s appears twice", quote(text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
		case !slices.Contains(names, text):
			c.problem(item, "unknown-value", "unknown format "+quote(text),
				cmp.Or(c.didYouMean(text, names), "the formats are "+strings.Join(names, ", ")))
		default:
			first[text] = item.pos
			formats = append(formats, ExportFormat(text))
		}
	}
	return formats
}

// schemaBase reads a URL to which names of files are added.
func (c *checker) schemaBase(n *node) Name {
	const hint = `write it like "https://schemas.example.com/orders/"`
	text, ok := c.scalar(n, "exports.schema_base")
	if !ok {
		return Name{}
	}
	u, err := url.Parse(text)
	problem := ""
	switch {
	case err != nil, strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}", r) }):
		problem = "is not a URL"
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		problem = "does not begin with https:// or http:// and a host"
	case u.User != nil:
		problem = "holds a user name, which every message would carry"
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		problem = "has a query or a fragment, behind which no file name fits"
	case !strings.HasSuffix(text, "/"):
		problem = "does not end with a slash: the names of files are added to it"
	case len(text) > longestBase:
		problem = fmt.Sprintf("has %d bytes, and at most %d fit", len(text), longestBase)
	default:
		return Name{Text: text, Pos: n.pos}
	}
	c.problem(n, "bad-url", fmt.Sprintf("exports.schema_base %s %s", quote(text), problem), hint)
	return Name{}
}
