package chromium

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestOwnBrowser(t *testing.T) {
	t.Setenv(PathVar, filepath.Join(t.TempDir(), "nothing"))
	if _, err := Find(t.Context(), nil); err == nil || !strings.Contains(err.Error(), PathVar) {
		t.Errorf("got %v, want an error that names %s", err, PathVar)
	}
	t.Setenv(PathVar, "/bin/sh")
	if b, err := Find(t.Context(), nil); err != nil || b.Path != "/bin/sh" || b.Env != nil {
		t.Errorf("got %+v, %v", b, err)
	}
}

// Who has no browser is told how to get one.
func TestUnavailable(t *testing.T) {
	text := (&UnavailableError{"there is no archive"}).Error()
	for _, want := range []string{"there is no archive", PathVar, "snap install chromium"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in: %s", want, text)
		}
	}
	if _, err := below(t.TempDir()); err == nil {
		t.Error("an empty folder is taken for a browser's")
	}
}
