package promtool

import (
	"os/exec"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	path, err := Find(t.Context(), func(step string) { t.Log(step) })
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "promtool") {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}
