package spec

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// source is the text of the file and where its lines begin.
type source struct {
	file  string
	text  []byte
	lines []int // offset of each line's first byte

	// The place runeColumn was last asked for. Nodes come in the order of the
	// file, so that it goes on from here: a whole file on one line would cost
	// the square of its length otherwise.
	cursor cursor
}

type cursor struct {
	line, column int // counted from 1, in characters
	offset       int // in bytes, of that character
}

func newSource(file string, text []byte) *source {
	// A byte order mark is legal and invisible: columns count from after it.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	s := &source{file: file, text: text, lines: []int{0}}
	for i, b := range text {
		if b == '\n' && i+1 < len(text) {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// line returns the text of a line, counted from 1, without its line break.
func (s *source) line(number int) string {
	if number < 1 || number > len(s.lines) {
		return ""
	}
	start, end := s.lines[number-1], len(s.text)
	if number < len(s.lines) {
		end = s.lines[number]
	}
	return strings.TrimRight(string(s.text[start:end]), "\r\n")
}

// at is the place of an offset.
func (s *source) at(offset int) diag.Pos {
	i := sort.SearchInts(s.lines, offset+1) - 1
	return diag.Pos{File: s.file, Line: i + 1, Col: offset - s.lines[i] + 1}
}

// runeColumn is the place of the column-th character of a line; the YAML
// parser counts characters where we count bytes.
func (s *source) runeColumn(line, column int) diag.Pos {
	if line > len(s.lines) { // an empty value after the last line break
		end := len(bytes.TrimRight(s.text, "\r\n"))
		return s.at(end)
	}
	cur := &s.cursor
	if cur.line != line || column < cur.column {
		*cur = cursor{line: line, column: 1, offset: s.lines[line-1]}
	}
	for cur.column < column && cur.offset < len(s.text) && s.text[cur.offset] != '\n' {
		_, size := utf8.DecodeRune(s.text[cur.offset:])
		cur.offset += size
		cur.column++
	}
	return diag.Pos{File: s.file, Line: line, Col: cur.offset - s.lines[line-1] + 1}
}

// offset is where a place is in the text.
func (s *source) offset(p diag.Pos) int {
	if p.Line < 1 || p.Line > len(s.lines) {
		return len(s.text)
	}
	return min(s.lines[p.Line-1]+p.Col-1, len(s.text))
}

// checkText refuses what must not be in the file whatever it says: such text
// would reach comments, logs and terminals.
func (c *checker) checkText() {
	if most := c.largest(); len(c.text) > most {
		c.add(diag.Diagnostic{
			Pos: c.at(0), Rule: "file-too-large",
			Message: fmt.Sprintf("the file is larger than %d KiB", most>>10),
			Hint:    "split the events over several services",
		})
		return
	}
	for i := 0; i < len(c.text); {
		r, size := utf8.DecodeRune(c.text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			c.add(diag.Diagnostic{
				Pos: c.at(i), Rule: "invalid-utf8",
				Message: fmt.Sprintf("byte 0x%02x is not valid UTF-8", c.text[i]),
				Hint:    "save the file as UTF-8",
			})
			return // what follows is most likely in the same other encoding
		case r == '\n', r == '\t', r == '\r' && i+1 < len(c.text) && c.text[i+1] == '\n':
		case isForbidden(r):
			c.add(diag.Diagnostic{
				Pos: c.at(i), Rule: "control-character",
				Message: fmt.Sprintf("the file contains %s", describeRune(r)),
				Hint:    "remove it",
			})
		}
		i += size
	}
}

// isForbidden reports characters that can't be seen or that change how the
// text around them is shown: controls, line separators that only some tools
// take for a line's end, and the bidirectional overrides of CVE-2021-42574.
func isForbidden(r rune) bool {
	switch {
	case unicode.IsControl(r),
		r == '\u2028', r == '\u2029', r == '\ufeff',
		r >= '\u202a' && r <= '\u202e',
		r >= '\u2066' && r <= '\u2069',
		r == '\u200e', r == '\u200f', r == '\u061c',
		r&0xfffe == 0xfffe, r >= '\ufdd0' && r <= '\ufdef':
		return true
	}
	return false
}

func describeRune(r rune) string {
	switch {
	case r == '\t':
		return "a tab"
	case r == '\n':
		return "a line break"
	case r == '\r':
		return "a carriage return"
	case unicode.IsControl(r):
		return fmt.Sprintf("the control character U+%04X", r)
	default:
		return fmt.Sprintf("the invisible character U+%04X", r)
	}
}
