package ddl

import (
	"slices"
	"strings"
)

// Canonical spells an expression or a query as MySQL, MariaDB and we ourselves would
// after each had its way: words in lower case, no quotes around names, no
// parentheses but those of a call, one name for functions that have two, and neither
// the schema of a table nor an alias that says the column's own name. Only a change of
// what parentheses group is lost.
func Canonical(text string) string {
	tokens := unqualify(tokenise(text))
	var out []string
	var kept []bool // of each open parenthesis: whether it is a call's
	for i, token := range tokens {
		switch token {
		case "(":
			call := i > 0 && isWord(tokens[i-1]) && !slices.Contains(keywords, tokens[i-1])
			kept = append(kept, call)
			if !call {
				continue
			}
		case ")":
			if len(kept) > 0 {
				call := kept[len(kept)-1]
				kept = kept[:len(kept)-1]
				if !call {
					continue
				}
			}
		}
		if n := len(out); n >= 2 && out[n-1] == "as" && out[n-2] == token {
			out = out[:n-1] // event_id AS event_id
			continue
		}
		out = append(out, token)
	}
	return strings.Join(out, " ")
}

// keywords are the words before a parenthesis that isn't a call's.
var keywords = []string{
	"select", "from", "join", "on", "where", "and", "or", "not", "case", "when", "then", "else", "as", "interval", "by", "having",
}

var synonyms = map[string]string{"current_timestamp": "now", "mod": "%", "!=": "<>"}

// unqualify drops the schema's name in front of a table's.
func unqualify(tokens []string) []string {
	var out []string
	table := false // the next name is a table's
	for i := 0; i < len(tokens); i++ {
		switch {
		case tokens[i] == "from" || tokens[i] == "join":
			table = true
		case tokens[i] == "(":
		case table && i+1 < len(tokens) && tokens[i+1] == ".":
			i++
			table = false
			continue
		default:
			table = false
		}
		out = append(out, tokens[i])
	}
	return out
}

// tokenise splits SQL without comments into words, literals and operators.
func tokenise(text string) []string {
	var out []string
	for i := 0; i < len(text); {
		c := text[i]
		end := i + 1
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case c == '`':
			end = closing(text, i)
			name := strings.ReplaceAll(text[i+1:end-1], "``", "`")
			out = append(out, strings.ToLower(name))
			i = end
			continue
		case c == '\'' || c == '"':
			end = closing(text, i)
		case isWordByte(c):
			for end < len(text) && isWordByte(text[end]) {
				end++
			}
		case end < len(text) && slices.Contains([]string{"<=", ">=", "<>", "!=", "||", "&&", "<<", ">>", "->"}, text[i:end+1]):
			end++
		}
		token := text[i:end]
		if c != '\'' && c != '"' {
			token = strings.ToLower(token)
		}
		if s, ok := synonyms[token]; ok {
			token = s
		}
		// A charset before a literal: _utf8mb4'PENDING'.
		if n := len(out); n > 0 && c == '\'' && strings.HasPrefix(out[n-1], "_") {
			out = out[:n-1]
		}
		out = append(out, token)
		i = end
	}
	return out
}

// closing is where the literal or name ends that begins at i.
func closing(text string, i int) int {
	quote := text[i]
	for j := i + 1; j < len(text); j++ {
		switch {
		case text[j] == '\\' && quote != '`':
			j++
		case text[j] == quote && j+1 < len(text) && text[j+1] == quote:
			j++
		case text[j] == quote:
			return j + 1
		}
	}
	return len(text)
}

func isWord(token string) bool { return token != "" && isWordByte(token[0]) }

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
