package fakemysql

import (
	"fmt"
	"strings"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenText
	tokenParam
	tokenSign
)

type token struct {
	kind tokenKind
	text string // words as written; see parser.is for keywords
}

// lex cuts a statement into tokens, without its comments.
func lex(sql string) ([]token, error) {
	var out []token
	for i := 0; i < len(sql); {
		switch c := sql[i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(sql[i:], "-- "):
			end := strings.IndexByte(sql[i:], '\n')
			if end < 0 {
				return out, nil
			}
			i += end
		case c == '\'' || c == '`':
			end := strings.IndexByte(sql[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("%c is not closed", c)
			}
			kind := tokenText
			if c == '`' {
				kind = tokenWord
			}
			out = append(out, token{kind, sql[i+1 : i+1+end]})
			i += end + 2
		case c == '?':
			out = append(out, token{tokenParam, "?"})
			i++
		case c >= '0' && c <= '9':
			n := i
			for n < len(sql) && sql[n] >= '0' && sql[n] <= '9' {
				n++
			}
			out = append(out, token{tokenNumber, sql[i:n]})
			i = n
		case isWordByte(c):
			n := i
			for n < len(sql) && isWordByte(sql[n]) {
				n++
			}
			out = append(out, token{tokenWord, sql[i:n]})
			i = n
		default:
			n := 1
			if i+1 < len(sql) && (sql[i:i+2] == "<=" || sql[i:i+2] == ">=" || sql[i:i+2] == "<>") {
				n = 2
			}
			out = append(out, token{tokenSign, sql[i : i+n]})
			i += n
		}
	}
	return out, nil
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
