package gogen

import (
	"path"
	"regexp"
	"strings"
)

const uuidPath = "github.com/google/uuid"

// nameImports settles by which name each package is used.
func (g *generator) nameImports() {
	g.names = map[string]string{
		uuidPath:    "uuid",
		g.runtime:   "outbox",
		g.rowlease:  "rowlease",
		g.lanelease: "lanelease",
		g.purge:     "purge",
		g.outboxdb:  "outboxdb",
		g.pkg:       g.model.Go.Package.Text,
	}
	for _, t := range g.model.GoTypes {
		if _, ours := g.names[t.ImportPath]; ours {
			continue
		}
		name := t.Package
		if isLocalName(name) {
			name += "pkg"
		}
		g.names[t.ImportPath] = name
	}
}

// importName is the name of a package; those not named otherwise are the
// standard library's.
func (g *generator) importName(importPath string) string {
	if name, ok := g.names[importPath]; ok {
		return name
	}
	return path.Base(importPath)
}

var localName = regexp.MustCompile(`^([ikv][0-9]*|[cdmps]|data|err|next|verb|plain|shown|any|inbox)$`)

// isLocalName reports names that the bodies of events.gen.go and upcasts.gen.go, or the package,
// declare, where a package of go.types is used too.
func isLocalName(name string) bool { return localName.MatchString(name) }

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// assumedName is the name that goimports takes a package to have: it writes the
// name into the import when the real one differs.
func assumedName(importPath string) string {
	base := path.Base(importPath)
	if majorVersion.MatchString(base) {
		if dir := path.Dir(importPath); dir != "." {
			base = path.Base(dir)
		}
	}
	base = strings.TrimPrefix(base, "go-")
	if i := notIdentifier.FindStringIndex(base); i != nil {
		base = base[:i[0]]
	}
	return base
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)
