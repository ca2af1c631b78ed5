package gogen

import (
	"strings"
	"unicode"
)

// docComment makes the lines of a comment of paragraphs, each a text of one
// line or more. An empty paragraph is left out.
func docComment(paragraphs ...string) []string {
	var lines []string
	for _, p := range paragraphs {
		p = strings.Trim(p, "\n")
		if strings.TrimSpace(p) == "" {
			continue
		}
		if len(lines) > 0 {
			lines = append(lines, "//")
		}
		for line := range strings.SplitSeq(p, "\n") {
			lines = append(lines, commentLine(line))
		}
	}
	return lines
}

// deprecated is the paragraph that linters look for. It ends with the reason: a
// blank line inside would begin a paragraph that they don't read.
func deprecated(reason string) string {
	if strings.TrimSpace(reason) == "" {
		return ""
	}
	return "Deprecated: " + strings.Join(strings.Fields(reason), " ")
}

// commentLine makes a comment of one line of a text, whatever the text is.
//
// After "// " no line is a directive to the compiler. Two are something to other
// tools all the same: gofmt turns "// +build" in any comment into a build
// constraint of the file, and the header makes a stub look like ours.
func commentLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimRight(text, " \t")
	if text == "" {
		return "//"
	}
	body := strings.TrimLeft(text, " \t")
	if strings.HasPrefix(body, "+build") || strings.HasPrefix(body, "Code generated ") {
		text = text[:len(text)-len(body)] + `\` + body
	}
	return "// " + text
}

// withName begins a doc text with the name it documents, as Go's convention has
// it, unless it begins so already.
func withName(name, sentence, doc string) []string {
	if strings.HasPrefix(doc, name+" ") {
		return []string{doc}
	}
	return []string{wrap(name + " " + sentence), doc}
}

// wrap breaks a text of ours into lines; a user's doc text keeps its own.
func wrap(text string) string {
	const width = 77
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
