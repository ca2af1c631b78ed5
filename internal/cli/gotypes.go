package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// checkGoTypes reports a custom Go type from a package that can't be: its path
// has no domain, and neither the standard library nor a module of go.mod begins
// like it. decimal.Decimal is what people write who mean the import path's last
// element.
func (m goModule) checkGoTypes(model *spec.Model) diag.List {
	var problems diag.List
	for _, t := range model.GoTypes {
		first, _, _ := strings.Cut(t.ImportPath, "/")
		if strings.Contains(first, ".") || isStandard(first) || m.mayHave(first) {
			continue
		}
		text := t.ImportPath + "." + t.Ident
		end := t.Pos
		end.Col += len(text)
		problems.Add(diag.Diagnostic{
			Pos: t.Pos, End: end, Rule: "bad-go-type",
			Message: fmt.Sprintf("the Go type %q comes from a package %q, which is neither in the standard library nor in a module of go.mod", text, t.ImportPath),
			Hint:    "write the full import path, as in github.com/shopspring/decimal.Decimal",
		})
	}
	return problems
}

// mayHave reports whether a package whose path begins so may be in this module
// or in one that it requires. What a workspace adds isn't known here.
func (m goModule) mayHave(first string) bool {
	begins := func(modulePath string) bool { return modulePath == first || strings.HasPrefix(modulePath, first+"/") }
	if begins(m.importPath) || m.inWorkspace() {
		return true
	}
	f, err := modfile.Parse("go.mod", m.goMod, nil)
	return err != nil || slices.ContainsFunc(f.Require, func(r *modfile.Require) bool { return begins(r.Mod.Path) })
}

// inWorkspace reports what the go command would take for one.
func (m goModule) inWorkspace() bool {
	if work := os.Getenv("GOWORK"); work != "" {
		return work != "off"
	}
	for at := m.dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// isStandard knows the first elements of the standard library's import paths.
func isStandard(first string) bool {
	switch first {
	case "archive", "arena", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug",
		"embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "io", "iter", "log",
		"maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "simd", "slices", "sort",
		"strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "weak":
		return true
	}
	return false
}
