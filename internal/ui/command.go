package ui

import (
	"fmt"
	"strings"
	"unicode"
)

// command is the command line that does what a view does, to be copied into a shell. Flags
// without a value are left out: pairs of a name and a value follow the arguments.
func (s *Server) command(args []string, flags ...string) string {
	parts := []string{"outboxgen"}
	for _, arg := range args {
		parts = append(parts, quoted(arg))
	}
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i+1] != "" {
			parts = append(parts, flags[i], quoted(flags[i+1]))
		}
	}
	if s.cfg.File != "events.yaml" {
		parts = append(parts, "--config", quoted(s.cfg.File))
	}
	return strings.Join(parts, " ")
}

// quoted is a word for a POSIX shell. Words with characters that nobody sees are written as
// bash, zsh and ksh read them.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:,@%+=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	if strings.IndexFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, r := range word {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return "$'" + b.String() + "'"
}
