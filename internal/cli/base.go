package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

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

// newer names the events whose newest version is not locked while the one that is
// published goes on: a consumer that is deployed may not read the new one yet.
func (l lock) newer(model *spec.Model) []string {
	if l.model == nil {
		return nil
	}
	var notes []string
	for _, was := range l.model.Events {
		i := slices.IndexFunc(model.Events, func(e *spec.Event) bool { return e.Name.Text == was.Name.Text })
		if i < 0 {
			continue
		}
		e, published := model.Events[i], was.Newest().Number
		for _, v := range e.Versions {
			if v.Number != published || v == e.Newest() || v.Deprecated != "" {
				continue
			}
			notes = append(notes, fmt.Sprintf("Write%s writes version %d of %s now, and version %d is what is published: until every consumer reads version %[2]d, call Write%[5]s",
				e.GoName, e.Newest().Number, e.Name.Text, published, v.GoName))
		}
	}
	return notes
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
