package dbserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A source is one entry of apt's configuration. See sources.list(5).
type source struct {
	uris       []string
	suites     []string
	components []string
	options    map[string]string // lower-case name: signed-by, trusted, …
}

// readSources reads the binary-package entries that are switched on in an
// apt folder (/etc/apt), in both of apt's formats.
func readSources(dir string) ([]source, error) {
	files := []string{filepath.Join(dir, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		more, err := filepath.Glob(filepath.Join(dir, "sources.list.d", pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	var all []source
	for _, name := range files {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) || os.IsPermission(err) {
			continue // apt itself passes over both
		}
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, ".sources") {
			all = append(all, parseDeb822(string(text))...)
		} else {
			all = append(all, parseOneLine(string(text))...)
		}
	}
	return all, nil
}

// parseOneLine reads `deb [option=value …] uri suite component…` lines.
func parseOneLine(text string) []source {
	var out []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '\t') {
			continue
		}
		options := map[string]string{}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			for field := range strings.FieldsSeq(inside) {
				if name, value, ok := strings.Cut(field, "="); ok {
					// Lists have commas here and spaces in the other format.
					options[strings.ToLower(name)] = strings.ReplaceAll(value, ",", " ")
				}
			}
			rest = after
		}
		words := strings.Fields(rest)
		if len(words) < 3 {
			continue
		}
		out = append(out, source{
			uris:       words[:1],
			suites:     words[1:2],
			components: words[2:],
			options:    options,
		})
	}
	return out
}

// parseDeb822 reads stanzas of `Name: value` with indented continuation
// lines; an inline Signed-By key is such a value.
func parseDeb822(text string) []source {
	var out []source
	fields, last := map[string]string{}, ""
	flush := func() {
		if s, ok := fromFields(fields); ok {
			out = append(out, s)
		}
		fields, last = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "":
			flush()
		case line[0] == '#':
			// A comment may stand in the middle of a field.
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				fields[last] += "\n" + line
			}
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return out
}

func fromFields(fields map[string]string) (source, bool) {
	enabled := strings.ToLower(fields["enabled"])
	if enabled == "no" || enabled == "false" || !slices.Contains(strings.Fields(fields["types"]), "deb") {
		return source{}, false
	}
	s := source{
		uris:       strings.Fields(fields["uris"]),
		suites:     strings.Fields(fields["suites"]),
		components: strings.Fields(fields["components"]),
		options:    map[string]string{},
	}
	for name, value := range fields {
		switch name {
		case "types", "uris", "suites", "components", "enabled":
		default:
			s.options[name] = value
		}
	}
	return s, len(s.uris) > 0 && len(s.suites) > 0
}

// mainArchive picks the entry that gives the system's own main archive:
// some of its suites is one of names (the release's code name, or an alias
// such as stable) and it has the component main. Third parties name suites
// likewise, so an entry that looks like the system's own wins.
func mainArchive(all []source, system string, names []string) (source, string, error) {
	best, bestSuite, bestScore := source{}, "", -1
	for _, s := range all {
		if !slices.Contains(s.components, "main") {
			continue
		}
		at := slices.IndexFunc(s.suites, func(suite string) bool { return slices.Contains(names, suite) })
		if at < 0 {
			continue
		}
		s.uris = slices.DeleteFunc(slices.Clone(s.uris), func(uri string) bool {
			return strings.HasPrefix(uri, "cdrom:")
		})
		if len(s.uris) == 0 {
			continue
		}
		score := 0
		if s.suites[at] == names[0] {
			score++
		}
		if strings.Contains(s.options["signed-by"], system+"-archive") {
			score += 4
		}
		if slices.ContainsFunc(s.uris, func(uri string) bool {
			return strings.HasPrefix(filepath.Base(strings.TrimRight(uri, "/")), system)
		}) {
			score += 2
		}
		if score > bestScore {
			best, bestSuite, bestScore = s, s.suites[at], score
		}
	}
	if bestScore < 0 {
		return source{}, "", fmt.Errorf("apt's sources name no archive for %s with the component main", strings.Join(names, ", "))
	}
	return best, bestSuite, nil
}

// deb822 writes the entry with other suites, or other components.
func (s source) deb822(suites, components []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\n",
		strings.Join(s.uris, " "), strings.Join(suites, " "), strings.Join(components, " "))
	// Only the package lists are of use: no translations, no icons.
	b.WriteString("Targets: Packages\n")
	names := make([]string, 0, len(s.options))
	for name := range s.options {
		switch name {
		case "arch", "architectures", "lang", "languages", "target", "targets",
			"arch+", "arch-", "architectures-add", "architectures-remove":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, s.options[name])
	}
	return b.String()
}
