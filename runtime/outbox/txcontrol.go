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
// (https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html).
// SAVEPOINT, RELEASE and ROLLBACK TO stay inside and are allowed.
var endsTransaction = map[string]bool{
	"ALTER": true, "ANALYZE": true, "BEGIN": true, "CHECK": true, "COMMIT": true,
	"CREATE": true, "DROP": true, "FLUSH": true, "GRANT": true, "INSTALL": true,
	"LOCK": true, "OPTIMIZE": true, "RENAME": true, "REPAIR": true, "RESET": true,
	"REVOKE": true, "ROLLBACK": true, "START": true, "TRUNCATE": true,
	"UNINSTALL": true, "UNLOCK": true, "XA": true,
}

// refuseTransactionControl looks at the first words only: it is there to catch
// a mistake, not to parse SQL.
func refuseTransactionControl(query string) error {
	word, rest := firstWord(query)
	if !endsTransaction[word] {
		return nil
	}
	second, _ := firstWord(rest)
	if word == "ROLLBACK" && second == "TO" ||
		(word == "CREATE" || word == "DROP") && second == "TEMPORARY" {
		return nil
	}
	return fmt.Errorf("%s: %w", word, ErrTransactionControl)
}

// firstWord returns the first word in upper case, after blanks and comments, and the rest.
func firstWord(s string) (word, rest string) {
	for {
		s = strings.TrimLeft(s, " \t\r\n;")
		switch {
		case strings.HasPrefix(s, "/*") && !strings.HasPrefix(s, "/*!"):
			_, after, ok := strings.Cut(s, "*/")
			if !ok {
				return "", ""
			}
			s = after
		case strings.HasPrefix(s, "-- "), strings.HasPrefix(s, "#"):
			_, after, ok := strings.Cut(s, "\n")
			if !ok {
				return "", ""
			}
			s = after
		default:
			end := strings.IndexFunc(s, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if end < 0 {
				end = len(s)
			}
			return strings.ToUpper(s[:end]), s[end:]
		}
	}
}
