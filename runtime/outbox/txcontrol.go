package outbox

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTransactionControl is returned for a statement that would end the
// transaction behind its back.
var ErrTransactionControl = errors.New("this statement would end the transaction; run it outside")

// endsTransaction holds the words that begin a statement which commits or rolls
// back, openly or implicitly
// (https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html), or, like a
// stored procedure, may do so.
// SAVEPOINT, RELEASE and ROLLBACK TO stay inside and are allowed.
var endsTransaction = map[string]bool{
	"ALTER": true, "ANALYZE": true, "BEGIN": true, "CACHE": true, "CALL": true,
	"CHANGE": true, "CHECK": true, "COMMIT": true, "CREATE": true, "DROP": true,
	"EXECUTE": true, "FLUSH": true, "GRANT": true, "IMPORT": true, "INSTALL": true,
	"LOCK": true, "OPTIMIZE": true, "RENAME": true, "REPAIR": true, "RESET": true,
	"REVOKE": true, "ROLLBACK": true, "START": true, "STOP": true, "TRUNCATE": true,
	"UNINSTALL": true, "UNLOCK": true, "XA": true,
}

// refuseTransactionControl looks at the first words only: it is there to catch
// a mistake, not to parse SQL.
func refuseTransactionControl(query string) error {
	word, rest := firstWord(query)
	second, _ := firstWord(rest)
	switch {
	case word == executableComment:
		return fmt.Errorf("a statement that begins with /*!: %w", ErrTransactionControl)
	case word == "ROLLBACK" && second == "TO",
		(word == "CREATE" || word == "DROP") && second == "TEMPORARY":
		return nil
	case endsTransaction[word],
		word == "LOAD" && second == "INDEX",
		word == "SET" && second == "PASSWORD":
		return fmt.Errorf("%s: %w", word, ErrTransactionControl)
	default:
		return nil
	}
}

// executableComment begins a comment that the server runs.
const executableComment = "/*!"

// firstWord returns the first word in upper case, after blanks, parentheses and
// comments, and the rest.
func firstWord(s string) (word, rest string) {
	for {
		s = strings.TrimLeft(s, " \t\r\n\v\f;(")
		end := ""
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			return executableComment, ""
		case strings.HasPrefix(s, "/*"):
			end = "*/"
		case strings.HasPrefix(s, "#"), len(s) > 2 && s[:2] == "--" && s[2] <= ' ':
			end = "\n"
		default:
			n := strings.IndexFunc(s, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if n < 0 {
				n = len(s)
			}
			return strings.ToUpper(s[:n]), s[n:]
		}
		var ok bool
		if _, s, ok = strings.Cut(s, end); !ok {
			return "", ""
		}
	}
}
