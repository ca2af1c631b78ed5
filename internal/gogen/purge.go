package gogen

import (
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// purgeQueries are the methods of purge.EventQueries, in its order, and of
// purge.DedupQueries where there are consumers.
func (g *generator) purgeQueries() []query {
	purgeable := query{name: "SelectPurgeable", result: "Purgeable", many: true}
	if g.model.Outbox.Ordering != spec.OrderingAggregate {
		purgeable.fields = []string{"KeepUs", "FromUs", "Limit"} // without a lane
	}
	queries := []query{
		purgeable,
		{name: "DeletePublished", result: "int64"},
		{name: "DeleteFailures", result: "none"},
		{name: "SelectOldRelays", result: "strings"},
		{name: "DeleteRelays", result: "int64"},
	}
	if len(g.model.Consumers) > 0 {
		queries = append(queries,
			query{name: "SelectConsumed", result: "Consumed", many: true},
			query{name: "DeleteConsumed", result: "int64"},
			query{name: "SelectConsumerFailures", result: "strings"},
			query{name: "DeleteConsumerFailures", result: "int64"},
		)
	}
	return append(queries,
		query{name: "TakeTask", result: "none"},
		query{name: "TaskHolder", result: "string"},
		query{name: "EndTask", result: "none"},
	)
}

// purgeFile has the purgers of published events and of dedup rows.
func (g *generator) purgeFile() *file {
	f := g.newFile("purge.gen.go")
	lanes := 0
	if g.model.Outbox.Ordering == spec.OrderingAggregate {
		lanes = spec.LaneCount
	}
	deletes := "It deletes the events that have been published for longer than keep_published, with what was kept of their errors, " +
		"and the rows of relays that ended long ago."
	if g.model.Outbox.KeepPublished == 0 {
		deletes = "It deletes the rows of relays that ended long ago: published events are deleted when they are published."
	}
	f.purger("NewPurger", "NewPurger returns a purger of the outbox of db. "+deletes+" cfg may be nil.",
		"NewEvents", f.duration(g.model.Outbox.KeepPublished), jen.Lit(lanes))
	if len(g.model.Consumers) > 0 {
		retain := make([]jen.Code, len(g.model.Consumers))
		for i, c := range g.model.Consumers {
			retain[i] = jen.Id("ConsumerName" + c.GoName).Op(":").Add(f.duration(c.Retain))
		}
		f.purger("NewDedupPurger", "NewDedupPurger returns a purger of the dedup rows in db. "+
			"It deletes those that are older than their consumer's retain, but those of parked events, and the counts of failed attempts that are. "+
			"An event that is delivered after that is applied again. cfg may be nil.",
			"NewDedup", jen.Map(jen.String()).Add(f.qual("time", "Duration")).Add(lines("{", "}", retain...)))
	}
	f.adapter("purgeQueries", g.purge, g.purgeQueries())
	return f
}

func (f *file) purger(name, doc, constructor string, args ...jen.Code) {
	args = append([]jen.Code{jen.Id("db"), jen.Id("purgeQueries").Values()}, args...)
	f.add(docComment(wrap(doc)), "func "+name,
		jen.Func().Id(name).Params(
			jen.Id("db").Op("*").Add(f.outbox("DB")),
			jen.Id("cfg").Op("*").Add(f.qual(f.g.purge, "Config")),
		).Params(jen.Op("*").Add(f.qual(f.g.purge, "Purger")), jen.Error()).Block(
			jen.Return(f.qual(f.g.purge, constructor).Call(append(args, jen.Id("cfg"))...)),
		))
}

// duration is d in the largest unit that it is a multiple of. events.yaml has
// no smaller one than milliseconds.
func (f *file) duration(d time.Duration) jen.Code {
	unit, name := time.Millisecond, "Millisecond"
	switch {
	case d == 0:
		return jen.Lit(0)
	case d%time.Hour == 0:
		unit, name = time.Hour, "Hour"
	case d%time.Minute == 0:
		unit, name = time.Minute, "Minute"
	case d%time.Second == 0:
		unit, name = time.Second, "Second"
	}
	if d == unit {
		return f.qual("time", name)
	}
	return jen.Lit(int(d / unit)).Op("*").Add(f.qual("time", name))
}
