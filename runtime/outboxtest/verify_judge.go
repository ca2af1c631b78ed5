package outboxtest

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// judge fills in what is there in the end, and the record.
func (v *verification) judge(ctx context.Context) error {
	if err := v.readEnd(ctx); err != nil {
		return err
	}
	h := &v.hist
	if err := v.readReasons(ctx); err != nil {
		return err
	}
	h.Leaks = v.leaks(ctx)
	if len(v.cfg.Private) > 0 {
		h.Canaries = []string{}
		if v.log.has(v.cfg.Private) {
			h.Canaries = append(h.Canaries, "the log, or an error of Write")
		}
	}
	r := v.rec
	r.StartedAt, r.Seconds = v.started.UTC().Round(time.Millisecond), time.Since(v.started).Round(time.Millisecond).Seconds()
	r.Versions = record.BuildVersions()
	if v.cfg.Application != "" {
		r.Versions.Application = v.cfg.Application
	}
	r.Versions.Servers, r.Versions.Brokers, r.Versions.Clients = []string{v.product + " " + v.server}, []string{v.cfg.Broker}, []string{v.cfg.Client}
	for _, i := range v.injections {
		r.Injections = append(r.Injections, i.result(*h))
	}
	r.AddRun(*h)
	r.Judge()
	return nil
}

// readEnd reads what the databases and the broker have in the end.
func (v *verification) readEnd(ctx context.Context) error {
	h := &v.hist
	var err error
	if h.Business, err = v.business(ctx); err != nil {
		return err
	}
	if err := v.readEvents(ctx); err != nil {
		return err
	}
	if v.broker != nil {
		for _, e := range v.broker.Published() {
			v.noteMessage(e)
		}
	}
	h.Dedup, h.Parked = []history.Dedup{}, []history.Parked{}
	rows, err := v.consumerRows(ctx, consumedTable)
	if err != nil {
		return err
	}
	for _, at := range rows {
		h.Dedup = append(h.Dedup, history.Dedup{EventID: at.event, Consumer: at.consumer})
	}
	if rows, err = v.consumerRows(ctx, parkedTable); err != nil {
		return err
	}
	for _, at := range rows {
		h.Parked = append(h.Parked, history.Parked{EventID: at.event, Consumer: at.consumer})
		v.parked[at] = ""
	}
	h.Ordered, h.Deadline = v.ordered, v.cfg.Patience
	return v.readEffects(ctx)
}

// readEvents reads the outbox, adds what was deleted after its mark, and gives each
// request its event.
func (v *verification) readEvents(ctx context.Context) error {
	h := &v.hist
	h.Events, h.Written = []history.Event{}, []history.Written{}
	events, err := storedEvents(ctx, v.db, Filter{})
	if err != nil {
		return err
	}
	for _, e := range events {
		h.Events = append(h.Events, history.Event{
			ID: e.ID, Status: statusNames[e.status], Attempts: e.attempts, Aggregate: aggregateOf(e.Envelope),
			Version: e.AggregateVersion, AvailableAt: e.availableAt,
		})
		v.written[e.ID] = e.Envelope
	}
	for id := range v.deleted {
		if e := v.written[id]; !slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.ID == id }) {
			h.Events = append(h.Events, history.Event{
				ID: id, Status: history.StatusPublished, Aggregate: aggregateOf(e), Version: e.AggregateVersion,
			})
		}
	}
	for id, e := range v.written {
		h.Written = append(h.Written, history.Written{
			EventID: id, Type: e.Type, Aggregate: aggregateOf(e), Version: e.AggregateVersion, Payload: e.Data,
		})
	}
	of := make(map[string]uuid.UUID, len(h.Business))
	for _, b := range h.Business {
		of[b.RequestID] = b.EventID
	}
	for i, r := range h.Requests {
		if id, ok := of[r.ID]; ok {
			h.Requests[i].EventID = id
		}
	}
	return nil
}

// readEffects counts the effects of each event, also of one without a business row: under
// the request that it came with.
func (v *verification) readEffects(ctx context.Context) error {
	h := &v.hist
	h.Effects = []history.Effect{}
	for _, i := range v.injections {
		for _, id := range i.events {
			r := v.requestOf(i, id)
			for n, name := range h.Consumers {
				count, err := v.effects(ctx, n, r)
				if err != nil {
					return err
				}
				h.Effects = append(h.Effects, history.Effect{EventID: id, Consumer: name, Count: count, Payload: v.payloads[eventAt{id, name}]})
			}
		}
	}
	return nil
}

func (v *verification) requestOf(i *injection, event uuid.UUID) Request {
	r := i.request
	for _, b := range v.hist.Business {
		if b.EventID == event {
			if n := slices.IndexFunc(v.requests, func(r Request) bool { return r.ID == b.RequestID }); n >= 0 {
				r = v.requests[n]
			}
		}
	}
	r.EventID = event
	return r
}

// partOf is what belongs to an injection of the whole history.
func partOf(h history.History, i *injection) history.History {
	is := func(id uuid.UUID) bool { return slices.Contains(i.events, id) }
	part := h
	part.Requests = keep(h.Requests, func(r history.Request) bool { return slices.Contains(i.requests, r.ID) })
	part.Business = keep(h.Business, func(b history.Business) bool { return slices.Contains(i.requests, b.RequestID) })
	part.Events = keep(h.Events, func(e history.Event) bool { return is(e.ID) })
	part.Written = keep(h.Written, func(w history.Written) bool { return is(w.EventID) })
	part.Published = keep(h.Published, func(p history.Publish) bool { return is(p.EventID) })
	part.Messages = keep(h.Messages, func(m history.Message) bool { return is(m.EventID) })
	part.Marks = keep(h.Marks, func(m history.Mark) bool { return is(m.EventID) })
	part.Deliveries = keep(h.Deliveries, func(d history.Delivery) bool { return is(d.EventID) })
	part.Acks = keep(h.Acks, func(a history.Ack) bool { return is(a.EventID) })
	part.Dedup = keep(h.Dedup, func(d history.Dedup) bool { return is(d.EventID) })
	part.Effects = keep(h.Effects, func(e history.Effect) bool { return is(e.EventID) })
	part.Parked = keep(h.Parked, func(p history.Parked) bool { return is(p.EventID) })
	part.Faults = h.Faults[i.from:i.to]
	part.Leaks, part.Canaries = nil, nil // of the whole run
	return part
}

// keep returns what is to be kept, never nil: it was observed.
func keep[T any](all []T, which func(T) bool) []T {
	kept := []T{}
	for _, v := range all {
		if which(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// write writes the record, and looks that nothing private is in it.
func (v *verification) write() error {
	if err := v.rec.Write(v.cfg.Record); err != nil {
		return err
	}
	text, err := os.ReadFile(v.cfg.Record)
	if err == nil && hasAny(string(text), v.cfg.Private) {
		err = errors.Join(errors.New("a private value is in the record, which is removed"), os.Remove(v.cfg.Record))
	}
	return err
}
