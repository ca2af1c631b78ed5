package spec

import (
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// checkRecursion refuses a struct that holds itself: it would have no end.
// Through a list, a map or an optional field it may come back to itself.
func (c *checker) checkRecursion() {
	w := recursionWalk{checker: c, depth: map[*Named]int{}}
	for _, n := range c.model.Types {
		if _, seen := w.depth[n]; !seen {
			w.visit(n)
		}
	}
}

type recursionWalk struct {
	*checker
	path  []*Named
	depth map[*Named]int // index in path; left when the walk is done with it
}

const left = -1

func (w *recursionWalk) visit(n *Named) {
	w.depth[n] = len(w.path)
	w.path = append(w.path, n)
	for _, f := range n.Fields {
		if f.Optional || f.Type == nil || f.Type.Kind != KindStruct {
			continue
		}
		at, seen := w.depth[f.Type.Named]
		switch {
		case !seen:
			w.visit(f.Type.Named)
		case at != left:
			w.add(diag.Diagnostic{
				Pos: f.Name.Pos, Rule: "recursive-type",
				Message: "a value of this type would hold itself without end: " + cycle(w.path[at:]),
				Hint:    "make a field on the way optional, or a list",
			})
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.depth[n] = left
}

// cycle shows the way round, the middle of a long one left out.
func cycle(path []*Named) string {
	const shown = 6
	var names []string
	for i, n := range path {
		if len(path) > shown && i == shown/2 {
			names = append(names, "…")
		}
		if len(path) > shown && i >= shown/2 && i < len(path)-shown/2 {
			continue
		}
		names = append(names, n.GoName)
	}
	return strings.Join(append(names, path[0].GoName), " -> ")
}
