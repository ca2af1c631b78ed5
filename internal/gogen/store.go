package gogen

import (
	"github.com/dave/jennifer/jen"
)

// storeQuery is a query of rowlease.Queries.
type storeQuery struct {
	name   string
	result string // "count", "none", "strings", "events", "waiting"
}

// storeQueries are the methods of rowlease.Queries, in its order.
func storeQueries() []storeQuery {
	return []storeQuery{
		{"SelectDueEvents", "events"},
		{"LeaseEvents", "count"},
		{"MarkPublished", "count"},
		{"SelectUnmarked", "strings"},
		{"ReleaseEvents", "count"},
		{"RetryEvent", "count"},
		{"BuryEvent", "count"},
		{"RecordFailure", "none"},
		{"RenewLeases", "count"},
		{"KeepRelayAlive", "none"},
		{"EndRelay", "none"},
		{"CountWaiting", "waiting"},
	}
}

// storeFile has the store of the relay, and the two look-ups of operations.
func (g *generator) storeFile() *file {
	f := g.newFile("store.gen.go")
	f.add(docComment("NewStore returns the outbox of db, for a relay."), "func NewStore",
		jen.Func().Id("NewStore").Params(jen.Id("db").Op("*").Add(f.outbox("DB"))).Op("*").Add(f.qual(g.rowlease, "Store")).Block(
			jen.Return(f.qual(g.rowlease, "New").Call(jen.Id("db"), jen.Id("Service"), jen.Id("storeQueries").Values())),
		))
	f.lookupEvent()
	f.lookupConsumed()
	f.add(docComment("storeQueries are sqlc's queries with the store's types."),
		"type storeQueries", jen.Type().Id("storeQueries").Struct())
	for _, q := range storeQueries() {
		f.storeQuery(q)
	}
	return f
}

func (f *file) storeQuery(q storeQuery) {
	params := []jen.Code{jen.Id("ctx").Add(f.qual("context", "Context")), jen.Id("db").Add(f.outbox("DBTX"))}
	args := []jen.Code{jen.Id("ctx")}
	if q.result != "waiting" {
		params = append(params, jen.Id("p").Add(f.qual(f.g.rowlease, q.name+"Params")))
		args = append(args, f.qual(f.g.outboxdb, q.name+"Params").Call(jen.Id("p")))
	}
	call := f.queries("db").Dot(q.name).Call(args...)
	results := jen.Error()
	body := []jen.Code{jen.Return(call)}
	switch q.result {
	case "count":
		results = jen.Params(jen.Int64(), jen.Error())
	case "strings":
		results = jen.Params(jen.Index().String(), jen.Error())
	case "waiting":
		waiting := f.qual(f.g.rowlease, "Waiting")
		results = jen.Params(waiting, jen.Error())
		body = []jen.Code{
			jen.List(jen.Id("row"), jen.Err()).Op(":=").Add(call),
			jen.Return(waiting.Clone().Call(jen.Id("row")), jen.Err()),
		}
	case "events":
		event := f.qual(f.g.rowlease, "DueEvent")
		results = jen.Params(jen.Index().Add(event), jen.Error())
		body = []jen.Code{
			jen.List(jen.Id("rows"), jen.Err()).Op(":=").Add(call),
			ifErr(jen.Nil(), jen.Err()),
			jen.Id("events").Op(":=").Make(jen.Index().Add(event.Clone()), jen.Len(jen.Id("rows"))),
			jen.For(jen.List(jen.Id("i"), jen.Id("row")).Op(":=").Range().Id("rows")).Block(
				jen.Id("events").Index(jen.Id("i")).Op("=").Add(event.Clone()).Call(jen.Id("row"))),
			jen.Return(jen.Id("events"), jen.Nil()),
		}
	}
	f.add(nil, "func (storeQueries) "+q.name,
		jen.Func().Params(jen.Id("storeQueries")).Id(q.name).Params(params...).Add(results).Block(body...))
}

func (f *file) lookupEvent() {
	f.add(docComment(
		wrap("LookupEvent returns what the outbox knows of an event. The error is sql.ErrNoRows when it knows nothing: "+
			"the event was never written, or was published and purged."),
	), "func LookupEvent", jen.Func().Id("LookupEvent").Params(f.lookupParams()...).
		Params(f.outbox("EventState"), jen.Error()).Block(
		jen.List(jen.Id("row"), jen.Err()).Op(":=").Add(f.queries("db")).Dot("EventState").Call(jen.Id("ctx"),
			f.qual(f.g.outboxdb, "EventStateParams").Values(keyed("EventID", jen.Id("id").Dot("String").Call()))),
		ifErr(f.outbox("EventState").Values(), jen.Err()),
		jen.Return(f.outbox("NewEventState").Call(f.outbox("EventStateRow").Call(jen.Id("row"))), jen.Nil()),
	))
}

func (f *file) lookupConsumed() {
	f.add(docComment(
		wrap("LookupConsumed returns when the consumer of that name applied an event. "+
			"The error is sql.ErrNoRows when it has not, or when its dedup row was purged."),
	), "func LookupConsumed", jen.Func().Id("LookupConsumed").Params(f.lookupParams(jen.Id("consumer").String())...).
		Params(f.qual("time", "Time"), jen.Error()).Block(
		jen.List(jen.Id("consumedUs"), jen.Err()).Op(":=").Add(f.queries("db")).Dot("ConsumedAt").Call(jen.Id("ctx"),
			f.qual(f.g.outboxdb, "ConsumedAtParams").Add(lines("{", "}",
				keyed("ConsumerName", jen.Id("consumer")),
				keyed("EventID", jen.Id("id").Dot("String").Call()),
			))),
		ifErr(f.qual("time", "Time").Values(), jen.Err()),
		jen.Return(f.qual("time", "UnixMicro").Call(jen.Id("consumedUs")).Dot("UTC").Call(), jen.Nil()),
	))
}

// lookupParams are ctx, db and id, with more before the id.
func (f *file) lookupParams(more ...jen.Code) []jen.Code {
	params := append([]jen.Code{
		jen.Id("ctx").Add(f.qual("context", "Context")),
		jen.Id("db").Add(f.outbox("DBTX")),
	}, more...)
	return append(params, jen.Id("id").Add(f.qual(uuidPath, "UUID")))
}
