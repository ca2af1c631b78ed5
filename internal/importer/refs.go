package importer

import (
	"net/url"
	"strconv"
	"strings"
)

// deref follows references until something else stands there. name is the last word
// of the last pointer. It is nil where a reference leads nowhere or round in a circle,
// which why says.
func (im *importer) deref(n *node) (target *node, name, why string) {
	const mostHops = 50
	for range mostHops {
		ref := n.str("$ref")
		if ref == "" {
			return n, name, ""
		}
		pointer, local := strings.CutPrefix(ref, "#")
		if !local {
			return nil, "", "the reference " + ref + " leads out of the document"
		}
		if pointer != "" && pointer[0] != '/' {
			return nil, "", "the reference " + ref + " is no path from the root"
		}
		var ok bool
		if n, name, ok = im.lookUp(pointer); !ok {
			return nil, "", "the reference " + ref + " leads nowhere"
		}
	}
	return nil, "", "the reference leads round in a circle"
}

// lookUp follows a JSON pointer (RFC 6901), percent-encoded as in a URI.
func (im *importer) lookUp(pointer string) (n *node, name string, ok bool) {
	n = im.root
	if pointer == "" {
		return n, "", true
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if n.kind == kindList {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil, "", false
			}
			n = n.items[i]
			continue
		}
		if n = n.get(name); n == nil {
			return nil, "", false
		}
	}
	return n, name, true
}
