package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parse reads a text: a title, lines of "key: value", a paragraph, and under two
// headings a snippet each.
func parse(id, text string) (Rule, error) {
	r := Rule{ID: id}
	head, rest, _ := strings.Cut(text, "\n## ")
	title, head, ok := strings.Cut(head, "\n")
	if r.Title, ok = strings.CutPrefix(title, "# "); !ok || r.Title == "" {
		return Rule{}, errors.New(`the first line has to be "# " and a title`)
	}
	var why []string
	for line := range strings.Lines(head) {
		if err := r.headLine(strings.TrimSpace(line), &why); err != nil {
			return Rule{}, err
		}
	}
	if r.Why = strings.Join(why, " "); r.Why == "" {
		return Rule{}, errors.New("it doesn't say why")
	}
	if !slices.Contains(Kinds(), r.Kind) {
		return Rule{}, fmt.Errorf("the kind %q is none of %v", r.Kind, Kinds())
	}
	before, after := r.Headings()
	first, second, ok := strings.Cut(rest, "\n## ")
	if !ok {
		return Rule{}, fmt.Errorf("it needs the headings ## %s and ## %s", before, after)
	}
	var err error
	if r.Before, err = snippet(before, first); err != nil {
		return Rule{}, err
	}
	r.After, err = snippet(after, second)
	return r, err
}

func (r *Rule) headLine(line string, why *[]string) error {
	key, value, _ := strings.Cut(line, ": ")
	switch {
	case line == "":
	case key == "kind":
		r.Kind = Kind(value)
	case key == "about" && value == "nothing by name":
	case key == "about":
		r.About = strings.Split(value, ", ")
		for _, a := range r.About {
			if !slices.Contains([]string{AboutEvents, AboutConsumers, AboutTypes, AboutFields}, a) {
				return fmt.Errorf("about: %q is nothing that has a name", a)
			}
		}
	case key == "example":
		how, reason, _ := strings.Cut(value, ": ")
		r.Example, r.NotRun = Example(how), reason
		if r.Example != ExampleWhole && (r.Example != ExampleNotRun || reason == "") {
			return fmt.Errorf(`example: %s is neither "whole" nor "not run: " with a reason`, value)
		}
	default:
		*why = append(*why, line)
	}
	return nil
}

func snippet(heading, text string) (Snippet, error) {
	title, text, _ := strings.Cut(text, "\n")
	if title != heading {
		return Snippet{}, fmt.Errorf("the heading %q has to be %q", title, heading)
	}
	language, text, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "```"), "\n")
	body, ok2 := strings.CutSuffix(text, "```")
	if !ok || !ok2 || language == "" || strings.TrimSpace(body) == "" {
		return Snippet{}, fmt.Errorf("the snippet under %q has to stand between ```yaml and ```", heading)
	}
	return Snippet{Language: language, Text: body}, nil
}
