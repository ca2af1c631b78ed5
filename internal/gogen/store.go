package gogen

import (
	"path"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// query is one of sqlc's queries, as a method of an interface of the runtime.
type query struct {
	name     string
	noParams bool
	fields   []string // of the parameters, where sqlc's have fewer than the runtime's
	result   string   // "none", "int64", "uint32", "string", "strings", or the runtime's type of a row
	many     bool     // rows
}

// rowQueries are the methods of rowlease.Queries, in its order.
func rowQueries() []query {
	return append([]query{
		{name: "SelectDueEvents", result: "DueEvent", many: true},
		{name: "LeaseEvents", result: "int64"},
		{name: "MarkPublished", result: "int64"},
		{name: "SelectUnmarked", result: "strings"},
		{name: "ReleaseEvents", result: "int64"},
		{name: "RetryEvent", result: "int64"},
		{name: "BuryEvent", result: "int64"},
		{name: "RenewLeases", result: "int64"},
	}, leaseQueries()...)
}

// laneQueries are the methods of lanelease.Queries, in its order.
func laneQueries() []query {
	return append([]query{
		{name: "SelectDueLanes", result: "DueLane", many: true},
		{name: "LockFreeLanes", result: "FreeLane", many: true},
		{name: "LeaseLanes", result: "int64"},
		{name: "LockLanes", result: "LockedLane", many: true},
		{name: "RenewLanes", result: "int64"},
		{name: "ReleaseLanes", result: "int64"},
		{name: "CountLanes", noParams: true, result: "int64"},
		{name: "AddLanes", noParams: true, result: "none"},
		{name: "CountRelays", noParams: true, result: "int64"},
		{name: "SelectLaneEvents", result: "LaneEvent", many: true},
		{name: "SelectUnblockedEvents", result: "LaneEvent", many: true},
		{name: "MarkPublished", result: "int64"},
		{name: "SelectUnmarked", result: "strings"},
		{name: "RetryEvent", result: "int64"},
		{name: "DelayEvents", result: "int64"},
		{name: "BuryEvent", result: "int64"},
	}, leaseQueries()...)
}

// leaseQueries are those that both kinds of store run.
func leaseQueries() []query {
	return []query{
		{name: "RecordFailure", result: "none"},
		{name: "DeleteFailures", result: "none"},
		{name: "CountWaiting", noParams: true, result: "Waiting"},
		{name: "CountDead", noParams: true, result: "int64"},
		{name: "KeepRelayAlive", result: "none"},
		{name: "EndRelay", result: "none"},
		{name: "RelayAliveUntil", result: "int64"},
		{name: "LockRelay", result: "strings"},
		{name: "DeleteRelay", result: "none"},
		{name: "ReadPause", noParams: true, result: "Pause", many: true},
	}
}

// storeFile has the store of the relay, and the two look-ups of operations.
func (g *generator) storeFile() *file {
	f := g.newFile("store.gen.go")
	store, queries, ordered := g.rowlease, rowQueries(), "Relays lease single events, and publish them in no promised order."
	config := []jen.Code{jen.Id("Source").Op(":").Id("Service")}
	if g.model.Outbox.Ordering == spec.OrderingAggregate {
		store, queries, ordered = g.lanelease, laneQueries(), "An aggregate's events are published in order."
		config = append(config, jen.Id("Lanes").Op(":").Lit(spec.LaneCount))
	}
	if base := g.model.Exports.SchemaBase.Text; base != "" {
		config = append(config, jen.Id("SchemaBase").Op(":").Lit(base))
	}
	if g.model.Outbox.KeepPublished == 0 {
		config = append(config, jen.Id("DeletePublished").Op(":").True())
	}
	f.add(docComment(wrap("NewStore returns the outbox of db, for a relay. "+ordered)), "func NewStore",
		jen.Func().Id("NewStore").Params(jen.Id("db").Op("*").Add(f.outbox("DB"))).Op("*").Add(f.qual(store, "Store")).Block(
			jen.Return(f.qual(store, "New").Call(
				jen.Id("db"), jen.Id("storeQueries").Values(), f.qual(store, "Config").Values(config...))),
		))
	f.lookupEvent()
	f.lookupConsumed()
	f.countParked()
	f.adapter("storeQueries", store, queries)
	return f
}

// adapter declares a type whose methods are sqlc's queries with the types of a
// package of the runtime.
func (f *file) adapter(name, importPath string, queries []query) {
	f.add(docComment(name+" are sqlc's queries with the types of package "+path.Base(importPath)+"."),
		"type "+name, jen.Type().Id(name).Struct())
	for _, q := range queries {
		f.adapt(name, importPath, q)
	}
}

func (f *file) adapt(receiver, importPath string, q query) {
	params := []jen.Code{jen.Id("ctx").Add(f.qual("context", "Context")), jen.Id("db").Add(f.outbox("DBTX"))}
	args := []jen.Code{jen.Id("ctx")}
	if !q.noParams {
		params = append(params, jen.Id("p").Add(f.qual(importPath, q.name+"Params")))
		args = append(args, f.params(q))
	}
	call := f.queries("db").Dot(q.name).Call(args...)
	var result *jen.Statement
	body := []jen.Code{jen.Return(call)}
	switch {
	case q.result == "none":
	case q.result == "int64":
		result = jen.Int64()
	case q.result == "uint32":
		result = jen.Uint32()
	case q.result == "string":
		result = jen.String()
	case q.result == "strings":
		result = jen.Index().String()
	case q.many:
		row := f.qual(importPath, q.result)
		result = jen.Index().Add(row)
		body = []jen.Code{
			jen.List(jen.Id("rows"), jen.Err()).Op(":=").Add(call),
			ifErr(jen.Nil(), jen.Err()),
			jen.Id("out").Op(":=").Make(jen.Index().Add(row.Clone()), jen.Len(jen.Id("rows"))),
			jen.For(jen.List(jen.Id("i"), jen.Id("row")).Op(":=").Range().Id("rows")).Block(
				jen.Id("out").Index(jen.Id("i")).Op("=").Add(row.Clone()).Call(jen.Id("row"))),
			jen.Return(jen.Id("out"), jen.Nil()),
		}
	default:
		result = f.qual(importPath, q.result)
		body = []jen.Code{
			jen.List(jen.Id("row"), jen.Err()).Op(":=").Add(call),
			jen.Return(result.Clone().Call(jen.Id("row")), jen.Err()),
		}
	}
	results := jen.Error()
	if result != nil {
		results = jen.Params(result, jen.Error())
	}
	f.add(nil, "func ("+receiver+") "+q.name,
		jen.Func().Params(jen.Id(receiver)).Id(q.name).Params(params...).Add(results).Block(body...))
}

// params makes sqlc's parameters of the runtime's, p.
func (f *file) params(q query) *jen.Statement {
	params := f.qual(f.g.outboxdb, q.name+"Params")
	if q.fields == nil {
		return params.Call(jen.Id("p"))
	}
	values := make([]jen.Code, len(q.fields))
	for i, name := range q.fields {
		values[i] = keyed(name, jen.Id("p").Dot(name))
	}
	return params.Add(lines("{", "}", values...))
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
		wrap("LookupConsumed returns how, and when, the consumer of that name was done with an event. "+
			"The error is sql.ErrNoRows when it is not, or when its dedup row was purged."),
	), "func LookupConsumed", jen.Func().Id("LookupConsumed").Params(f.lookupParams(jen.Id("consumer").String())...).
		Params(f.outbox("Consumption"), jen.Error()).Block(
		jen.List(jen.Id("row"), jen.Err()).Op(":=").Add(f.queries("db")).Dot("ConsumedAt").Call(jen.Id("ctx"),
			f.qual(f.g.outboxdb, "ConsumedAtParams").Add(lines("{", "}",
				keyed("ConsumerName", jen.Id("consumer")),
				keyed("EventID", jen.Id("id").Dot("String").Call()),
			))),
		ifErr(f.outbox("Consumption").Values(), jen.Err()),
		jen.Return(f.outbox("NewConsumption").Call(f.outbox("ConsumptionRow").Call(jen.Id("row"))), jen.Nil()),
	))
}

func (f *file) countParked() {
	counts := jen.Map(jen.String()).Int64()
	f.add(docComment(
		wrap("CountParked returns how many parked events each consumer has, by its name; one that has none is left out. "+
			"db is the consumers' database. It reads an index, and is meant for a gauge that is read every few seconds."),
	), "func CountParked", jen.Func().Id("CountParked").Params(
		jen.Id("ctx").Add(f.qual("context", "Context")), jen.Id("db").Add(f.outbox("DBTX")),
	).Params(counts, jen.Error()).Block(
		jen.List(jen.Id("rows"), jen.Err()).Op(":=").Add(f.queries("db")).Dot("CountParked").Call(jen.Id("ctx")),
		ifErr(jen.Nil(), jen.Err()),
		jen.Id("out").Op(":=").Make(counts.Clone(), jen.Len(jen.Id("rows"))),
		jen.For(jen.List(jen.Id("_"), jen.Id("row")).Op(":=").Range().Id("rows")).Block(
			jen.Id("out").Index(jen.Id("row").Dot("ConsumerName")).Op("=").Id("row").Dot("Parked")),
		jen.Return(jen.Id("out"), jen.Nil()),
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
