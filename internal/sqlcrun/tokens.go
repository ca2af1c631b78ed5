package sqlcrun

import (
	"strings"
)

// token is a piece of the user's DDL.
type token struct {
	kind tokenKind
	text string // of a name in backticks, without them
	at   int    // offset in the file
}

type tokenKind int

const (
	tokenWord   tokenKind = iota // a keyword, a name or a number
	tokenQuoted                  // a name in backticks
	tokenString                  // a text
	tokenSign                    // one of ( ) , . and the like
)

// is reports that t is one of the keywords; a name in backticks is none.
func (t token) is(keywords ...string) bool {
	if t.kind != tokenWord {
		return false
	}
	for _, k := range keywords {
		if strings.EqualFold(t.text, k) {
			return true
		}
	}
	return false
}

func (t token) isSign(sign string) bool { return t.kind == tokenSign && t.text == sign }

// isName reports that t may be a name, and is that one when name isn't empty.
// Names are compared without case: of columns as the servers do, and of tables
// to be on the safe side.
func (t token) isName(name string) bool {
	return (t.kind == tokenWord || t.kind == tokenQuoted) && (name == "" || strings.EqualFold(t.text, name))
}

// statementsOf splits DDL into statements of tokens. It is false for a text
// with a quote or a comment that doesn't end.
func statementsOf(ddl string) ([][]token, bool) {
	var all [][]token
	var statement []token
	inVersion := false // within /*! … */, which the servers run
	for at := 0; at < len(ddl); {
		rest := ddl[at:]
		switch c := rest[0]; {
		case isLineComment(rest):
			at += lineLength(rest)
		case strings.HasPrefix(rest, "/*!"), strings.HasPrefix(rest, "/*M!"):
			inVersion = true
			at += strings.IndexByte(rest, '!') + 1
			for at < len(ddl) && isDigit(ddl[at]) { // the version
				at++
			}
		case inVersion && strings.HasPrefix(rest, "*/"):
			inVersion = false
			at += 2
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return nil, false
			}
			at += 2 + end + 2
		case c == '\'' || c == '"' || c == '`':
			text, length, ok := quotedText(rest)
			if !ok {
				return nil, false
			}
			kind := tokenString
			if c == '`' {
				kind = tokenQuoted
			}
			statement = append(statement, token{kind, text, at})
			at += length
		case isWordByte(c):
			length := 1
			for length < len(rest) && isWordByte(rest[length]) {
				length++
			}
			statement = append(statement, token{tokenWord, rest[:length], at})
			at += length
		case c == ';':
			all = append(all, statement)
			statement = nil
			at++
		case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
			at++
		default:
			statement = append(statement, token{tokenSign, rest[:1], at})
			at++
		}
	}
	return append(all, statement), !inVersion
}

// isLineComment knows the servers' rule: two dashes are a comment only before
// a space or the like, so that 5--3 is a difference.
func isLineComment(text string) bool {
	return text[0] == '#' || strings.HasPrefix(text, "--") && (len(text) == 2 || text[2] <= ' ')
}

func lineLength(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end + 1
	}
	return len(text)
}

// quotedText reads a text or a name with its quotes. Doubled quotes stand for
// one, and in a text a backslash keeps the next character.
func quotedText(text string) (inner string, length int, ok bool) {
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`' && i+1 < len(text):
			i++
		case text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return b.String(), i + 1, true
		}
		b.WriteByte(text[i])
	}
	return "", 0, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWordByte takes all of UTF-8 beyond ASCII for letters, as the servers do.
func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

// cutGroup returns the tokens within the parentheses that tokens begin with,
// and those behind them.
func cutGroup(tokens []token) (inner, rest []token, ok bool) {
	if len(tokens) == 0 || !tokens[0].isSign("(") {
		return nil, tokens, false
	}
	depth := 0
	for i, t := range tokens {
		switch {
		case t.isSign("("):
			depth++
		case t.isSign(")"):
			if depth--; depth == 0 {
				return tokens[1:i], tokens[i+1:], true
			}
		}
	}
	return nil, tokens, false
}

// splitList splits at the commas that are in no parentheses.
func splitList(tokens []token) [][]token {
	var parts [][]token
	depth, from := 0, 0
	for i, t := range tokens {
		switch {
		case t.isSign("("):
			depth++
		case t.isSign(")"):
			depth--
		case t.isSign(",") && depth == 0:
			parts = append(parts, tokens[from:i])
			from = i + 1
		}
	}
	return append(parts, tokens[from:])
}

// shallow are the tokens that are in no parentheses, these included.
func shallow(tokens []token) []token {
	var out []token
	depth := 0
	for _, t := range tokens {
		switch {
		case t.isSign("("):
			depth++
		case t.isSign(")"):
			depth--
		case depth == 0:
			out = append(out, t)
		}
	}
	return out
}
