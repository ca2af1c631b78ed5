// Package migration makes the files that migration tools read.
package migration

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Tool is a migration tool.
type Tool string

// The tools.
const (
	Plain         Tool = "plain" // SQL, for whatever runs it
	Goose         Tool = "goose"
	GolangMigrate Tool = "golang-migrate"
	Atlas         Tool = "atlas" // a file of its versioned migrations
)

// Tools are all of them.
func Tools() []Tool { return []Tool{Plain, Goose, GolangMigrate, Atlas} }

// File is a file of a migration.
type File struct {
	Name string
	Text string
}

// Files returns the files of a migration named name. Without down it has no way
// back. Neither script may hold a statement with a semicolon in it, for which goose
// needs a mark of its own.
func Files(tool Tool, version, name, up, down string) []File {
	switch base := version + "_" + name; tool {
	case Goose:
		text := "-- +goose Up\n" + up
		if down != "" {
			text += "\n-- +goose Down\n" + down
		}
		return []File{{base + ".sql", text}}
	case GolangMigrate:
		files := []File{{base + ".up.sql", up}}
		if down != "" {
			files = append(files, File{base + ".down.sql", down})
		}
		return files
	case Atlas:
		return []File{{base + ".sql", up}}
	default:
		return []File{{name + ".sql", up}}
	}
}

const timestamp = "20060102150405"

var versioned = regexp.MustCompile(`^(\d+)_.*\.sql$`)

// Named returns the first of the files in a folder that is a migration of this name, under
// whatever version; "" when there is none.
func Named(names []string, name string) string {
	is := regexp.MustCompile(`^\d+_` + regexp.QuoteMeta(name) + `(\.up|\.down)?\.sql$`)
	for _, n := range names {
		if is.MatchString(n) {
			return n
		}
	}
	return ""
}

// NextVersion is the version behind those of the files in a folder, spelled as the
// last of them: counted on with as many digits, or the time by UTC where that has a
// time's fourteen digits or there is none, as each of the tools has it when it is not told otherwise.
func NextVersion(names []string, now time.Time) string {
	last, width := uint64(0), 0
	for _, name := range names {
		m := versioned.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if n, err := strconv.ParseUint(m[1], 10, 63); err == nil && (width == 0 || n > last) {
			last, width = n, len(m[1])
		}
	}
	next := fmt.Sprintf("%0*d", width, last+1)
	// Of the same width, texts compare as the numbers do.
	if stamp := now.UTC().Format(timestamp); width == 0 || width == len(timestamp) && stamp > next {
		return stamp
	}
	return next
}
