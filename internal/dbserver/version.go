package dbserver

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var versionLine = regexp.MustCompile(`(?:Ver|from)\s+(\d+(?:\.\d+)+[^\s,]*)`)

// parseVersion reads what `mysqld --version` prints. The flavor comes from
// this line, never from the file's name: MariaDB installs a mysqld too.
func parseVersion(line string) (Flavor, string, error) {
	line = strings.TrimSpace(line)
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return "", "", fmt.Errorf("no version in %q", line)
	}
	if strings.Contains(strings.ToLower(line), "mariadb") {
		return MariaDB, m[1], nil
	}
	return MySQL, m[1], nil
}

// versionLess compares the numbers in front of a version's suffix:
// 8.0.36-0ubuntu1 counts as 8.0.36.
func versionLess(a, b string) bool {
	x, y := versionNumbers(a), versionNumbers(b)
	for i := range max(len(x), len(y)) {
		var p, q int
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return p < q
		}
	}
	return false
}

func versionNumbers(v string) []int {
	end := strings.IndexFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		v = v[:end]
	}
	var out []int
	for part := range strings.SplitSeq(v, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}
