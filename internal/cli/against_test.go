package cli

import (
	"errors"
	"strings"
	"testing"
)

func TestNoGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := against(t.Context(), "events.yaml", "main")
	var h hinted
	if err == nil || !strings.Contains(err.Error(), "git is not installed") || !errors.As(err, &h) || h.hint == "" {
		t.Errorf("without git: %v", err)
	}
}
