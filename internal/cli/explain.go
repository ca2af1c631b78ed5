package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/rules"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [RULE]",
		Short: "Tell what a rule means and why it is one, with an example",
		Long: `Tell what a rule means and why it is one, with an example.

A rule's name stands in brackets behind each finding. Without a name, all rules
are listed. With --format json both are data.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(rules.IDs(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listRules()
			}
			return a.explain(strings.Trim(args[0], "[]"))
		},
	}
}

func (a *app) explain(id string) error {
	r, ok := rules.Find(id)
	if !ok {
		return hinted{fmt.Errorf("unknown rule %q", id), orNearest("outboxgen explain lists the rules", id, rules.IDs())}
	}
	if a.format == formatJSON {
		return a.writeJSON(explained(r))
	}
	_, err := fmt.Fprint(a.stdout, explanation(r))
	return err
}

func (a *app) listRules() error {
	all := rules.All()
	if a.format == formatJSON {
		list := make([]jsonRule, len(all))
		for i, r := range all {
			list[i] = explained(r)
		}
		return a.writeJSON(list)
	}
	width := 0
	for _, r := range all {
		width = max(width, len(r.ID))
	}
	kind := rules.Kind("")
	var b strings.Builder
	for _, r := range all {
		if r.Kind != kind {
			if kind != "" {
				b.WriteString("\n")
			}
			kind = r.Kind
			fmt.Fprintf(&b, "%s\n", kind)
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, r.ID, r.Title)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// explanation is the text of a rule for a terminal of 80 columns.
func explanation(r rules.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%s] (%s)\n\n", r.Title, r.ID, r.Kind)
	b.WriteString(wrapped(r.Why, 80))
	before, after := r.Headings()
	for _, s := range []struct {
		heading string
		rules.Snippet
	}{{before, r.Before}, {after, r.After}} {
		fmt.Fprintf(&b, "\n%s:\n\n", s.heading)
		for line := range strings.Lines(s.Text) {
			b.WriteString("    " + line)
		}
	}
	return b.String()
}

// wrapped breaks text into lines of at most width bytes, where it can.
func wrapped(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// jsonRule is the machine-readable form of a rule: add keys, never rename one.
type jsonRule struct {
	ID     string `json:"rule"`
	Kind   string `json:"kind"`
	Title  string `json:"title"`
	Why    string `json:"why"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func explained(r rules.Rule) jsonRule {
	return jsonRule{r.ID, string(r.Kind), r.Title, r.Why, r.Before.Text, r.After.Text}
}

func (a *app) writeJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false) // examples are full of list<T>
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
