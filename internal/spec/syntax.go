package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// parse reads the text as one YAML document, or says why it can't.
func (s *source) parse() (*yaml.Node, *diag.Diagnostic) {
	decoder := yaml.NewDecoder(bytes.NewReader(s.text))
	var doc yaml.Node
	err := decodeYAML(decoder, &doc)
	switch {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.ScalarNode, Line: 1, Column: 1}, nil
	case err != nil:
		return nil, s.syntaxProblem(err)
	}
	var second yaml.Node
	err = decodeYAML(decoder, &second)
	switch {
	case errors.Is(err, io.EOF):
		return &doc, nil
	case err != nil:
		return nil, s.syntaxProblem(err)
	}
	return nil, &diag.Diagnostic{
		Pos: s.runeColumn(second.Line, second.Column), Rule: "second-document",
		Message: "the file holds a second YAML document",
		Hint:    "remove the line --- and what does not belong to the first",
	}
}

// decodeYAML turns the library's panics on input it does not expect into
// errors: the file is the user's, and so is the right to a plain message.
func decodeYAML(d *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("unknown problem parsing YAML content")
		}
	}()
	return d.Decode(into)
}

// syntaxProblem translates an error of the YAML library. Its text is in the
// parser's words, and its line is often the beginning of what surrounds the
// fault, or missing.
func (s *source) syntaxProblem(err error) *diag.Diagnostic {
	message, line := splitYAMLError(err)
	e := explain(message)
	d := &diag.Diagnostic{Rule: "yaml-syntax", Message: e.message, Hint: e.hint}
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		d.Pos = s.firstMatch(`\*[^\s,\[\]{}]+`)
		d.Rule = "yaml-alias"
	case e.flow:
		s.explainFlow(d, line+1, line, 1)
	case e.search:
		s.locate(d, message)
		s.explainLine(d, message)
		if d.Message == e.message {
			s.explainFlow(d, d.Pos.Line)
		}
	default:
		d.Pos = s.indented(max(line, 1))
		s.explainLine(d, message)
	}
	if d.Pos.Line < 1 || d.Pos.Line > len(s.lines) {
		d.Pos = s.at(0)
	}
	return d
}

// splitYAMLError takes "yaml: line 3: did not find ..." apart.
func splitYAMLError(err error) (message string, line int) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			line, _ = strconv.Atoi(number)
			message = text
		}
	}
	return message, line
}

// explanation is what one of the library's messages means to a reader.
type explanation struct {
	message, hint string
	flow          bool // the fault is inside { } or [ ]: see flow.go
	search        bool // the library gives the line of the surroundings only
}

func explain(message string) explanation {
	switch message {
	case "did not find expected ',' or '}'":
		return explanation{message: "the braces opened here hold something that does not fit", hint: "entries between { and } are written key: value, with commas between", flow: true}
	case "did not find expected ',' or ']'":
		return explanation{message: "the brackets opened here hold something that does not fit", hint: "items between [ and ] stand with commas between", flow: true}
	case "did not find expected key":
		return explanation{message: "a key was expected here", hint: "check that the line is indented like its neighbours and reads key: value", search: true}
	case "did not find expected '-' indicator":
		return explanation{message: "a list item was expected here", hint: "begin every item of the list with - in the same column", search: true}
	case "did not find expected node content":
		return explanation{message: "a value was expected here", search: true}
	case "found undefined tag handle":
		return explanation{message: "a tag is not allowed here", hint: "quote a text that begins with an exclamation mark", search: true}
	case "did not find expected <document start>":
		return explanation{message: "the text goes on after the document's end", hint: "the whole file is one mapping of keys", search: true}
	case "could not find expected ':'":
		return explanation{message: "this line, or the one before it, is no key: value pair", hint: "put a colon and a space after the key"}
	case "mapping values are not allowed in this context":
		return explanation{message: "a second colon can't stand in this value", hint: "put the value in quotes, or the second key on a line of its own with the same indentation"}
	case "mapping keys are not allowed in this context", "block sequence entries are not allowed in this context":
		return explanation{message: "a list or a key can't begin here", hint: "begin it on the next line, indented, or quote the value"}
	case "found character that cannot start any token":
		return explanation{message: "this character can't begin a value", hint: "put the value in quotes"}
	case "found unexpected end of stream", "found unexpected document indicator":
		return explanation{message: "the quote opened here is never closed", hint: "close it, or double a ' inside a text in ' quotes"}
	case "found unknown escape character", "did not find expected hexdecimal number", "found invalid Unicode character escape code":
		return explanation{message: "a backslash sequence in this text is not known", hint: `write \\ for a backslash, or use ' quotes`}
	case "found a tab character that violates indentation", "found a tab character where an indentation space is expected":
		return explanation{message: "a tab can't indent", hint: "indent with spaces"}
	case "found incompatible YAML document", "found unknown directive name":
		return explanation{message: "directives (lines that begin with %) are not allowed", hint: "remove the line"}
	case "control characters are not allowed":
		return explanation{message: "the file contains a control character", hint: "remove it"}
	}
	switch {
	case strings.HasPrefix(message, "exceeded max depth"):
		return explanation{message: fmt.Sprintf("nested more than %d levels deep", maxDepth)}
	case strings.HasPrefix(message, "unknown anchor"):
		return explanation{message: "aliases (words that begin with *) are not allowed", hint: "write the value out, or quote a text that begins with *"}
	case strings.Contains(message, "directive") || strings.Contains(message, "version number"):
		return explanation{message: "directives (lines that begin with %) are not allowed", hint: "remove the line"}
	default:
		// The rest are tags and block scalar headers, none of which an
		// events.yaml needs.
		return explanation{message: "the text is not valid YAML", hint: "quote a value that begins with ! | > or %"}
	}
}

// locate finds the line that the library stumbles over by cutting the text
// shorter: these faults are no fault at the end of a file, so that the error
// appears with the line that causes it.
func (s *source) locate(d *diag.Diagnostic, message string) {
	fails := func(lines int) bool {
		end := len(s.text)
		if lines < len(s.lines) {
			end = s.lines[lines]
		}
		var doc yaml.Node
		err := decodeYAML(yaml.NewDecoder(bytes.NewReader(s.text[:end])), &doc)
		if err == nil {
			return false
		}
		got, _ := splitYAMLError(err)
		return got == message
	}
	low, high := 1, len(s.lines)
	for low < high {
		middle := (low + high) / 2
		if fails(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	d.Pos = s.indented(low)
}

// explainLine looks for the cause within the line.
func (s *source) explainLine(d *diag.Diagnostic, message string) {
	text := s.line(d.Pos.Line)
	column := -1
	switch message {
	case "found a tab character that violates indentation", "found a tab character where an indentation space is expected":
		// The line given is where the value before began.
		for d.Pos.Line < len(s.lines) && !tabIndent.MatchString(s.line(d.Pos.Line)) {
			d.Pos.Line++
		}
		column = strings.IndexByte(s.line(d.Pos.Line), '\t')
	case "found character that cannot start any token":
		if strings.HasPrefix(strings.TrimLeft(text, " "), "\t") {
			d.Message, d.Hint = "a tab can't indent", "indent with spaces"
			column = strings.Index(text, "\t")
		} else if at := startsBadly.FindStringSubmatchIndex(text); at != nil {
			column = at[2]
			d.Message = fmt.Sprintf("a value can't begin with %s", quote(text[at[2]:at[3]]))
		}
	case "did not find expected key":
		if at := afterQuote.FindStringSubmatchIndex(text); at != nil {
			column = at[2]
			d.Message, d.Hint = "text goes on after the closing quote", "put the whole value in quotes; double a ' inside a text in ' quotes"
		}
	case "found unknown escape character", "did not find expected hexdecimal number", "found invalid Unicode character escape code":
		column = strings.IndexByte(text, '\\')
	case "mapping values are not allowed in this context":
		if at := secondColon.FindStringSubmatchIndex(text); at != nil {
			column = at[2]
		} else if d.Pos.Line > 1 {
			d.Message = "this key is indented deeper than the one above, which already has a value"
			d.Hint = "indent both alike, or move the value"
		}
	case "found unexpected end of stream", "found unexpected document indicator":
		column = strings.IndexAny(text, `"'`)
	}
	if column >= 0 {
		d.Pos.Col = column + 1
	}
}

var (
	tabIndent   = regexp.MustCompile(`^ *\t`)
	startsBadly = regexp.MustCompile("(?:^|[:,\\[{-])[ \t]*([@`%])")
	afterQuote  = regexp.MustCompile(`(?:^|[:-])[ ]+(?:"[^"]*"|'[^']*')[ ]*([^ \t#,\]}:])`)
	secondColon = regexp.MustCompile(`^[^:"'#]*:[ ]+[^"'#]*?(:)(?:[ ]|$)`)
)

// indented is the first character of a line that is no blank.
func (s *source) indented(line int) diag.Pos {
	text := s.line(line)
	blank := len(text) - len(strings.TrimLeft(text, " \t"))
	if blank == len(text) {
		blank = 0
	}
	return diag.Pos{File: s.file, Line: line, Col: blank + 1}
}

func (s *source) firstMatch(pattern string) diag.Pos {
	if at := regexp.MustCompile(pattern).FindIndex(s.text); at != nil {
		return s.at(at[0])
	}
	return s.at(0)
}
