package importer

import (
	"errors"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// settle writes the file, and gives way where the parser refuses it, until it
// doesn't: an enum becomes a string, what can't be had at all is left out with a TODO.
// Each round gives something up, so that it ends.
func (im *importer) settle() ([]byte, error) {
	d := &im.out
	const mostRounds = 60
	for range mostRounds {
		l := d.render()
		text := []byte(l.b.String())
		_, problems := spec.Parse("events.yaml", text)
		if len(problems) == 0 {
			return text, nil
		}
		if !im.giveWay(l, problems) {
			return nil, fmt.Errorf("the events.yaml made of it is refused: line %d: %s", problems[0].Pos.Line, problems[0].Message)
		}
	}
	return nil, errors.New("too much of it has no counterpart in events.yaml")
}

func (im *importer) giveWay(l *lines, problems diag.List) bool {
	d := &im.out
	done := map[any]bool{}
	for _, p := range problems {
		if p.Pos.Line < 1 || p.Pos.Line > len(l.owners) {
			continue
		}
		owner := l.owners[p.Pos.Line-1]
		if owner == nil || done[owner] {
			continue
		}
		done[owner] = true
		switch owner := owner.(type) {
		case *field:
			owner.giveWay(p)
			im.tellGivenUp(owner.pos, owner.name, p)
		case *typ:
			giveName(&owner.goName, &owner.gone, owner.name+"Type", p)
			im.tellLeftOut(owner.pos, owner.name, owner.gone)
		case *event:
			d.eventGivesWay(owner, p)
			im.tellLeftOut(owner.pos, owner.name, owner.gone)
		case *consumer:
			giveName(&owner.goName, &owner.gone, spec.GoName(owner.name)+"Consumer", p)
			im.tellLeftOut(owner.pos, owner.name, owner.gone)
		}
	}
	for _, e := range d.events { // a field of the aggregate may be gone, or of another type
		if e.gone == "" && (e.id.gone != "" || e.version.gone != "") {
			d.aggregate(e)
		}
	}
	return len(done) > 0
}

func (im *importer) tellGivenUp(pos diag.Pos, name string, p diag.Diagnostic) {
	pos.File = im.file
	im.note(&node{pos: pos}, name, nil, "%s", p.Message)
}

func (im *importer) tellLeftOut(pos diag.Pos, name, why string) {
	if why != "" {
		im.note(&node{pos: pos}, name, nil, "left out: %s", why)
	}
}

// giveName sets go_name where a Go name is taken or means something else, and otherwise leaves the thing out.
func giveName(goName, gone *string, other string, p diag.Diagnostic) {
	if (p.Rule == "go-name-clash" || p.Rule == "bad-name") && *goName == "" {
		*goName = other
		return
	}
	*gone = p.Message
}

func (d *document) eventGivesWay(e *event, p diag.Diagnostic) {
	if p.Rule == "aggregate-field" {
		e.id, e.version = e.makeUp("aggregate_id", "string"), e.makeUp("aggregate_version", "int64")
		return
	}
	giveName(&e.goName, &e.gone, spec.GoName(e.name)+"Event", p)
}

func (f *field) giveWay(p diag.Diagnostic) {
	switch {
	case p.Rule == "recursive-type" && !f.optional:
		f.optional = true
		f.todos = append(f.todos, "required in the source: a value would hold itself without end")
	case f.shape.enum != nil:
		f.todos = append(f.todos, fmt.Sprintf("one of %s: %s", flow(f.shape.enum), p.Message))
		f.shape = scalar("string")
	case f.shape.String() != "json" && p.Rule != "go-name-clash" && p.Rule != "bad-name":
		f.todos = append(f.todos, fmt.Sprintf("%s: %s", f.shape, p.Message))
		f.shape = scalar("json")
	default:
		f.gone = p.Message
	}
}
