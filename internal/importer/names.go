package importer

import (
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// names hands out names that differ from each other, and whose Go names do.
type names struct{ taken map[string]bool }

func newNames() *names { return &names{map[string]bool{}} }

// legal makes a name by repair, or of what is left of the letters in text, or else of
// fallback.
func legal(text, fallback string, most int, repair func(string) string) string {
	ascii := strings.Map(func(r rune) rune {
		if r > '~' || r < ' ' {
			return -1
		}
		return r
	}, text)
	for _, s := range []string{text, ascii, fallback + " " + ascii, ascii[:min(len(ascii), most)]} {
		if s = repair(s); s != "" {
			return s
		}
	}
	return fallback
}

// unique appends a number to name until no Go name that is made of it is taken.
func (n *names) unique(name string, most int, goNames func(string) []string) string {
	for i := 1; ; i++ {
		s := name
		if i > 1 {
			number := fmt.Sprint(i)
			s = strings.TrimRight(name[:min(len(name), most-len(number))], "._-") + number
		}
		claims := goNames(s)
		free := true
		for _, c := range claims {
			free = free && !n.taken[c]
		}
		if !free {
			continue
		}
		for _, c := range claims {
			n.taken[c] = true
		}
		return s
	}
}

func (n *names) event(text string) string {
	return n.unique(legal(text, "event", 100, spec.RepairEvent), 128, func(s string) []string {
		g := spec.GoName(s)
		return []string{g, "Write" + g, "Reconcile" + g, "EventType" + g}
	})
}

func (n *names) typ(text string) string {
	return n.unique(legal(text, "Type", 44, spec.RepairType), 48, func(s string) []string { return []string{s} })
}

func (n *names) consumer(text string) string {
	return n.unique(legal(text, "consumer", 100, spec.RepairConsumer), 128, func(s string) []string {
		g := spec.GoName(s)
		// The last is the package of its stub, which is a folder too.
		return []string{"New" + g, g + "Handler", "ConsumerName" + g, "package " + strings.ToLower(g)}
	})
}

// field names are unique within their struct.
func fieldName(text string, fields *names) string {
	return fields.unique(legal(text, "field", 44, spec.RepairField), 48, func(s string) []string { return []string{spec.GoName(s)} })
}

// changed is the original of a name that had to be another one.
func changed(orig, name string) string {
	if orig == name {
		return ""
	}
	return orig
}
