package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/lockfile"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// lock is the file that says what has been published.
type lock struct {
	file  string      // as the user would name it
	src   []byte      // nil when there is none
	model *spec.Model // likewise
}

// readLock reads the lock of a config, if there is one.
func readLock(config string) (lock, error) {
	l := lock{file: lockfile.Name(config)}
	src, err := readConfig(l.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, err
	}
	l.src = src
	l.model, err = parseBase(l.file, src)
	return l, err
}

// broken are the findings of a model that breaks the lock: none without one.
func (l lock) broken(model *spec.Model) diag.List {
	if l.model == nil {
		return nil
	}
	return compat.Compare(l.model, model)
}

// parseBase reads what the current file is compared with. That it can't be read is no
// finding about the current file.
func parseBase(file string, src []byte) (*spec.Model, error) {
	parse, hint := spec.Parse, "compare with a state of the file that this version of outboxgen reads"
	if lockfile.IsName(file) {
		parse, hint = spec.ParseLock, "restore it from version control: outboxgen lock writes it, nobody else"
	}
	model, problems := parse(file, src)
	if len(problems) > 0 {
		return nil, hinted{fmt.Errorf("what was published can't be read: %w", problems), hint}
	}
	return model, nil
}
