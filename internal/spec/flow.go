package spec

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// explainFlow finds what is wrong between { } or [ ] that open on one of the
// given lines. The YAML library is no better than that: it names the line
// before the one where the outermost bracket opens, or the line of the fault,
// or, on the first line, none.
func (s *source) explainFlow(d *diag.Diagnostic, lines ...int) {
	for _, start := range lines {
		if start < 1 || start > len(s.lines) || !strings.ContainsAny(s.line(start), "{[") {
			continue
		}
		f := flowScan{source: s, off: s.lines[start-1], d: d}
		if f.run() {
			return
		}
	}
	if !d.Pos.IsValid() {
		d.Pos = s.indented(min(lines[0], len(s.lines)))
	}
}

// flowScan reads the text between brackets the way a YAML reader does, as far
// as needed to see what does not fit.
type flowScan struct {
	*source
	d    *diag.Diagnostic
	off  int
	open []bracket
}

// bracket is one that is open.
type bracket struct {
	off   int
	colon bool // the entry being read has its colon already
}

// run reads until a fault, or until the line ends with nothing open.
func (f *flowScan) run() bool {
	for f.off < len(f.text) {
		b := f.text[f.off]
		before := byte(' ')
		if f.off > 0 {
			before = f.text[f.off-1]
		}
		switch {
		case b == '#' && isBlank(before):
			f.skipLine()
			continue
		case (b == '"' || b == '\'') && !isWord(before):
			f.skipQuoted(b)
			continue
		case b == '\n':
			if len(f.open) == 0 {
				return false
			}
			if f.isUnclosed() {
				return true
			}
		case b == '{' || b == '[':
			if f.opens(before) {
				return true
			}
		case (b == '}' || b == ']') && (len(f.open) > 0 || isBlank(before) || before == '}' || before == ']'):
			if f.closes(b) {
				return true
			}
		case b == ',' && len(f.open) > 0:
			f.open[len(f.open)-1].colon = false
		case b == ':' && len(f.open) > 0 && f.off+1 < len(f.text) && isBlank(f.text[f.off+1]):
			if f.secondColon() {
				return true
			}
		case b == '?' && len(f.open) > 0:
			f.questionMark()
			return true
		}
		f.off++
	}
	return len(f.open) > 0 && f.unclosed()
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func (f *flowScan) skipLine() {
	for f.off < len(f.text) && f.text[f.off] != '\n' {
		f.off++
	}
}

func (f *flowScan) skipQuoted(mark byte) {
	for f.off++; f.off < len(f.text) && f.text[f.off] != mark; f.off++ {
		if mark == '"' && f.text[f.off] == '\\' {
			f.off++
		}
	}
	f.off++
}

func (f *flowScan) report(offset int, rule, message, hint string) {
	f.d.Pos = f.source.at(min(offset, len(f.text)))
	f.d.Rule, f.d.Message, f.d.Hint = rule, message, hint
}

// opens handles a bracket, and reports one that follows a word: list[T].
func (f *flowScan) opens(before byte) bool {
	if isWord(before) {
		if len(f.open) == 0 {
			return false // list[T] outside of braces is a text, read as a type later
		}
		start := f.wordStart(f.off)
		word := string(f.text[start:f.off])
		f.report(start, "type-brackets", fmt.Sprintf("the bracket after %s does not fit between braces", quote(word)),
			"types take angle brackets: list<T>, map<T>")
		return true
	}
	f.open = append(f.open, bracket{off: f.off})
	return false
}

var bracketType = regexp.MustCompile(`^\[\]\s*([A-Za-z][A-Za-z0-9_<>]*)`)

// closes handles a closing bracket, and reports one that does not match and
// what may not follow it, such as the type in []string.
func (f *flowScan) closes(b byte) bool {
	if len(f.open) == 0 {
		f.report(f.off, "yaml-syntax", fmt.Sprintf("nothing is open that this %c could close", b), "remove it")
		return true
	}
	last := f.open[len(f.open)-1].off
	want := map[byte]byte{'{': '}', '[': ']'}[f.text[last]]
	if b != want {
		f.report(f.off, "yaml-syntax", fmt.Sprintf("found %c where %c is needed", b, want), "")
		f.d.Related = []diag.Related{{Pos: f.source.at(last), Message: "opened here"}}
		return true
	}
	f.open = f.open[:len(f.open)-1]
	if m := bracketType.FindSubmatch(f.text[last:]); m != nil {
		f.report(last, "type-brackets", fmt.Sprintf("%s is not a type", quote(string(m[0]))), "write list<"+example(string(m[1]))+">")
		return true
	}
	return false
}

// secondColon reports { type: string pii: true }.
func (f *flowScan) secondColon() bool {
	top := &f.open[len(f.open)-1]
	if !top.colon {
		top.colon = true
		return false
	}
	start := f.wordStart(f.off)
	f.report(start, "yaml-syntax", fmt.Sprintf("a comma is missing before %s", quote(string(f.text[start:f.off]))), "")
	return true
}

// questionMark reports { x?: T } and { type: string? }: between braces YAML
// gives the question mark a meaning of its own.
func (f *flowScan) questionMark() {
	start := f.wordStart(f.off)
	word := string(f.text[start:f.off])
	if strings.HasPrefix(strings.TrimLeft(string(f.text[f.off+1:min(f.off+8, len(f.text))]), " "), ":") {
		f.report(start, "optional-in-braces", fmt.Sprintf("%s can't stand between braces without quotes", quote(word+"?")),
			fmt.Sprintf("write %s in quotes, or each field on a line of its own", quote(word+"?")))
		return
	}
	f.report(start, "optional-on-type", fmt.Sprintf("%s is not a type: the question mark belongs to the field's name", quote(word+"?")),
		"put the question mark after the field's name, before the colon, or write optional: true")
}

func (f *flowScan) wordStart(end int) int {
	start := end
	for start > 0 && (isWord(f.text[start-1]) || strings.IndexByte("<>.-", f.text[start-1]) >= 0) {
		start--
	}
	return start
}

var blockKey = regexp.MustCompile(`^( *)[A-Za-z_][A-Za-z0-9_.-]*\??:(?:\s|$)`)

// isUnclosed guesses, at the end of a line, that a closing bracket was
// forgotten: the next line is a key that is indented no deeper than the line
// with the opening one.
func (f *flowScan) isUnclosed() bool {
	pos := f.source.at(f.open[0].off)
	opener := f.line(pos.Line)
	indent := len(opener) - len(strings.TrimLeft(opener, " "))
	m := blockKey.FindStringSubmatch(f.line(f.source.at(f.off).Line + 1))
	return m != nil && len(m[1]) <= indent && f.unclosed()
}

func (f *flowScan) unclosed() bool {
	last := f.open[len(f.open)-1].off
	f.report(last, "yaml-syntax", fmt.Sprintf("this %c is never closed", f.text[last]), "")
	return true
}
