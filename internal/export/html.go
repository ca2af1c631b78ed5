package export

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

//go:embed catalogue.html.tmpl
var catalogueHTML string

// HTML is the catalogue as one page that needs nothing else: it can be opened from a
// folder, or put on any web server.
func HTML(m *spec.Model) []byte {
	page := template.Must(template.New("catalogue").Funcs(template.FuncMap{
		"count":      count,
		"paragraphs": func(doc string) []string { return strings.Split(doc, "\n\n") },
	}).Parse(catalogueHTML))
	c := newCatalogue(m)
	var b bytes.Buffer
	b.WriteString("<!-- " + header + " -->\n") // the template drops comments
	err := page.Execute(&b, struct {
		catalogue
		Flow template.HTML
	}{c, flow(c)})
	if err != nil {
		panic(err) // of a template that doesn't fit the types above
	}
	return b.Bytes()
}
