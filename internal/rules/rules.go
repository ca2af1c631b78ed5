// Package rules explains the rules that findings are named after, one Markdown
// file a rule in text/: what is wrong, why it is a rule, and an example before
// and after.
package rules

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Kind is what a rule is about.
type Kind string

// The kinds, in the order in which they are listed.
const (
	KindEvents   Kind = "events.yaml" // the file itself
	KindSchema   Kind = "schema"      // your own tables, and what a source says of them
	KindOutput   Kind = "output"      // the files that are generated
	KindBreaking Kind = "breaking"    // what changed since events.yaml was published
	KindDatabase Kind = "database"    // our tables in a database, against those that are needed
	KindDoctor   Kind = "doctor"      // a server and its settings, users and rows, from outboxgen doctor
	KindLint     Kind = "lint"        // advice, from outboxgen lint
	KindImport   Kind = "import"      // what outboxgen import reads
	KindRun      Kind = "run"         // the command itself
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{KindEvents, KindSchema, KindOutput, KindBreaking, KindDatabase, KindDoctor, KindLint, KindImport, KindRun}
}

// Rule is the explanation of one rule.
type Rule struct {
	ID    string // in kebab-case, as a finding has it
	Title string
	Kind  Kind
	Why   string // one paragraph on one line

	// About is what findings of KindLint are about, and lint.ignore may name: AboutEvents
	// and so on. Empty where a finding has no name.
	About []string

	// Before breaks the rule and After doesn't. For KindBreaking they are the
	// published file and the one that is refused.
	Before, After Snippet
	Example       Example
	NotRun        string // for ExampleNotRun: the reason
}

// What a finding of lint can be about.
const (
	AboutEvents    = "events"
	AboutConsumers = "consumers"
	AboutTypes     = "types"
	AboutFields    = "fields" // of an event or a type
)

// IgnoreUnused is the rule about lint.ignore itself.
const IgnoreUnused = "ignore-unused"

// Snippet is a fragment of a file.
type Snippet struct {
	Language string // "yaml", "sql" or "sh"
	Text     string
}

// Example is how the snippets of a rule are tried out by a test.
type Example string

// The ways to try an example.
const (
	ExampleFragment Example = ""        // top-level keys of an events.yaml, laid over a small one
	ExampleWhole    Example = "whole"   // a whole events.yaml
	ExampleNotRun   Example = "not run" // NotRun says why
)

// Headings are what the two snippets are called.
func (r Rule) Headings() (before, after string) {
	if r.Kind == KindBreaking && r.Example != ExampleNotRun {
		return "Published", "Refused"
	}
	return "Before", "After"
}

//go:embed text/*.md
var texts embed.FS

// All are the rules by kind, then by id. A text that can't be read is a fault of
// the build, which a test of this package finds.
func All() []Rule {
	names, err := fs.Glob(texts, "text/*.md")
	if err != nil {
		panic(err)
	}
	all := make([]Rule, 0, len(names))
	for _, name := range names {
		all = append(all, mustRead(name))
	}
	slices.SortStableFunc(all, func(a, b Rule) int {
		return slices.Index(Kinds(), a.Kind) - slices.Index(Kinds(), b.Kind)
	})
	return all
}

// Find returns the rule with that id.
func Find(id string) (Rule, bool) {
	name := "text/" + id + ".md"
	if strings.ContainsRune(id, '/') {
		return Rule{}, false
	}
	if _, err := fs.Stat(texts, name); err != nil {
		return Rule{}, false
	}
	return mustRead(name), true
}

// IDs are the ids of one kind, or of all kinds.
func IDs(kinds ...Kind) []string {
	var ids []string
	for _, r := range All() {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func mustRead(name string) Rule {
	data, err := texts.ReadFile(name)
	if err != nil {
		panic(err)
	}
	r, err := parse(strings.TrimSuffix(strings.TrimPrefix(name, "text/"), ".md"), string(data))
	if err != nil {
		panic(fmt.Sprintf("internal/rules/%s: %v", name, err))
	}
	return r
}
