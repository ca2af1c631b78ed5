package importer

import "github.com/outboxgen/outboxgen/internal/diag"

// document is the events.yaml that comes out.
type document struct {
	source    string // what it was made of, for a comment
	service   string
	pkg       string
	renamed   bool // a name on the wire is another one
	types     []*typ
	events    []*event
	consumers []*consumer
}

type typ struct {
	name   string
	orig   string // in the source, where it is another one
	doc    string
	enum   []string
	fields []*field
	todos  []string
	goName string
	gone   string // why it is left out; what is of it becomes json
	pos    diag.Pos
}

type event struct {
	name, orig      string
	doc, deprecated string
	fields          []*field
	todos           []string
	aggregateType   string
	id, version     *field
	goName          string
	gone            string
	pos             diag.Pos
}

type field struct {
	name, orig      string
	optional, pii   bool
	shape           shape
	doc, deprecated string
	todos           []string
	gone            string
	pos             diag.Pos // in the source, as all of them; none for what is made up
}

type consumer struct {
	name, orig, doc string
	handles         []*event
	todos           []string
	goName          string
	gone            string
	pos             diag.Pos
}

// shape is a type, in one of four ways.
type shape struct {
	scalar string // "int64"
	elem   *shape // of a list or map, which scalar then names
	named  *typ
	enum   []string // declared in the field
}

func scalar(name string) shape { return shape{scalar: name} }

func (s shape) String() string {
	switch {
	case s.named != nil && s.named.gone != "":
		return "json"
	case s.named != nil:
		return s.named.name
	case s.elem != nil:
		return s.scalar + "<" + s.elem.String() + ">"
	default:
		return s.scalar
	}
}
