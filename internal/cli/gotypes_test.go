package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func TestGoTypes(t *testing.T) {
	t.Setenv("GOWORK", "")
	dir := t.TempDir()
	m := goModule{importPath: "shop/services/orders", dir: dir, goMod: []byte("module shop\nrequire (\n\tmoney v1.0.0\n\tlibs/text v1.0.0\n)\n")}
	check := func(importPath string) diag.List {
		pos := diag.Pos{File: "events.yaml", Line: 7, Col: 14}
		return m.checkGoTypes(&spec.Model{GoTypes: []spec.GoType{{ImportPath: importPath, Ident: "Decimal", Pos: pos}}})
	}
	for _, fine := range []string{
		"time", "net/netip", "math/big", "encoding/json", "github.com/shopspring/decimal", "example.com/x",
		"shop/money", "shop", "money", "money/v2", "libs/text/x",
	} {
		if problems := check(fine); len(problems) != 0 {
			t.Errorf("%s: %v", fine, problems)
		}
	}
	for _, wrong := range []string{"decimal", "uuid", "shopspring/decimal", "moneys", "lib/text"} {
		problems := check(wrong)
		if len(problems) != 1 || problems[0].Pos.Col != 14 || problems[0].Rule != "bad-go-type" || !strings.Contains(problems[0].Hint, "full import path") {
			t.Errorf("%s: %+v", wrong, problems)
		}
	}
	// The packages of a workspace are not known.
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "go.work"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if problems := check("decimal"); len(problems) != 0 {
		t.Errorf("in a workspace: %v", problems)
	}
	t.Setenv("GOWORK", "off")
	if problems := check("decimal"); len(problems) != 1 {
		t.Errorf("outside of it: %v", problems)
	}
}

// TestStandardLibrary: the list is that of the Go that runs the tests, or of a
// newer one.
func TestStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "std").Output()
	if err != nil {
		t.Fatal(err)
	}
	for importPath := range strings.Lines(string(out)) {
		first, _, _ := strings.Cut(strings.TrimSpace(importPath), "/")
		if first != "vendor" && first != "internal" && !isStandard(first) {
			t.Errorf("%s is missing", first)
		}
	}
}
