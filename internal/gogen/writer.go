package gogen

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// writerFile has a writer an event.
func (g *generator) writerFile() *file {
	f := g.newFile("writer.gen.go")
	for _, e := range g.model.Events {
		for _, v := range e.Versions {
			switch {
			case v == e.Newest():
				f.writer(e, v, e.GoName)
			case v.Deprecated == "":
				f.writer(e, v, v.GoName)
			}
		}
	}
	f.add(nil, "func insertEvent",
		jen.Func().Id("insertEvent").Params(
			jen.Id("ctx").Add(f.qual("context", "Context")),
			jen.Id("tx").Add(f.outbox("Transaction")),
			jen.Id("row").Add(f.outbox("Row")),
		).Error().Block(
			jen.Return(f.queries("tx").Dot("InsertEvent").Call(
				jen.Id("ctx"), f.qual(g.outboxdb, "InsertEventParams").Call(jen.Id("row")))),
		))
	return f
}

// queries is sqlc's queries on the variable db.
func (f *file) queries(db string) *jen.Statement {
	return f.qual(f.g.outboxdb, "New").Call(jen.Id(db))
}

// writer writes the writer of a version, whose payload is known as payload.
func (f *file) writer(e *spec.Event, v *spec.Version, payload string) {
	name, what := "Write"+payload, "the event "+e.Name.Text
	if v != e.Newest() {
		what = fmt.Sprintf("version %d of the event %s", v.Number, e.Name.Text)
	}
	doc := docComment(
		wrap(fmt.Sprintf("%s writes %s in tx: it is published if tx commits, and only then. "+
			"Make eventID with outbox.NewEventID before the transaction, and keep it for every retry.", name, what)),
		wrap("When it fails, tx must be rolled back; an *outbox.Tx can't do anything else any more. "+
			"No error holds a value of the payload."),
		deprecated(e.Deprecated),
	)
	f.add(doc, "func "+name, jen.Func().Id(name).Add(lines("(", ")",
		jen.Id("ctx").Add(f.qual("context", "Context")),
		jen.Id("tx").Add(f.outbox("Transaction")),
		jen.Id("eventID").Add(f.qual(uuidPath, "UUID")),
		jen.Id("payload").Id(payload),
		jen.Id("opts").Op("...").Add(f.outbox("WriteOptions")),
	)).Error().Block(
		jen.Return(f.outbox("Write").Call(jen.Id("ctx"), jen.Id("tx"),
			f.outbox("Record").Add(lines("{", "}",
				keyed("EventID", jen.Id("eventID")),
				keyed("AggregateType", jen.Lit(e.Aggregate.Type.Text)),
				keyed("AggregateID", f.aggregateID(v.ID)),
				keyed("EventType", jen.Id("EventType"+e.GoName)),
				keyed("EventVersion", f.aggregateVersion(v.AggregateVersion)),
				keyed("SchemaVersion", jen.Lit(v.Number)),
				keyed("Payload", jen.Id("payload")),
			)),
			jen.Id("insertEvent"), jen.Id("opts").Op("..."),
		)),
	))
}

// aggregateID is the payload's aggregate id as text. The conversions are for a
// Go type of the user's own.
func (f *file) aggregateID(field *spec.Field) jen.Code {
	value := jen.Id("payload").Dot(field.GoName)
	switch field.Type.Kind {
	case spec.KindUUID:
		return value.Dot("String").Call()
	case spec.KindString:
		if field.Type.Go != nil {
			return jen.String().Parens(value)
		}
		return value
	default: // int32, int64
		return f.qual("strconv", "FormatInt").Call(f.int64(field, value), jen.Lit(10))
	}
}

func (f *file) aggregateVersion(field *spec.Field) jen.Code {
	return f.int64(field, jen.Id("payload").Dot(field.GoName))
}

func (f *file) int64(field *spec.Field, value *jen.Statement) jen.Code {
	if field.Type.Go == nil && field.Type.Kind == spec.KindInt64 {
		return value
	}
	return jen.Int64().Parens(value)
}
