package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// searched is what was looked for: the event with an id, or a list.
type searched struct {
	EventID *uuid.UUID          `json:"event_id,omitempty"` // what it is, is on the event's own view
	What    string              `json:"what"`               // "aggregate order/123", for people
	Page    ops.Page[ops.Event] `json:"page"`
}

// The words that a search takes for a status.
var statusWords = []string{"pending", "published", "dead", "discarded"}

const hintSearch = "write an event id, an aggregate (order/123), request:TENANT/ID, an event type, or one of pending, published, dead, discarded; nothing finds the newest events"

// getSearch finds out what the text of a search is.
func (s *Server) getSearch(r *http.Request) (any, error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	if id, err := uuid.Parse(text); err == nil {
		return told{s.command([]string{"show", id.String()}), searched{EventID: &id, What: "event " + id.String()}}, nil
	}
	query, what, flags, err := asQuery(s.cfg.Source.Model(), text)
	if err != nil {
		return nil, err
	}
	query.Before = r.URL.Query().Get("cursor")
	page, err := s.cfg.Source.Find(r.Context(), query)
	return told{s.command([]string{"find"}, append(flags, "--before", query.Before)...), searched{What: what, Page: page}}, err
}

// asQuery is a search for anything but an event id, and the flags of the command that does it.
func asQuery(m *spec.Model, text string) (q ops.Query, what string, flags []string, err error) {
	if rest, is := strings.CutPrefix(text, "request:"); is {
		q.Request = strings.SplitN(rest, "/", requestColumns(m))
		for _, value := range q.Request {
			flags = append(flags, "--request", value)
		}
		return q, "request " + rest, flags, nil
	}
	switch {
	case text == "":
		return q, "the newest events", nil, nil
	case slices.Contains(statusWords, text):
		q.Status = text
		return q, text + " events", []string{"--status", text}, nil
	case slices.ContainsFunc(m.Events, func(e *spec.Event) bool { return e.Name.Text == text }):
		q.Type = text
		return q, "events of the type " + text, []string{"--type", text}, nil
	}
	if q.AggregateType, q.AggregateID, err = aggregate(text); err != nil {
		return q, "", nil, badRequest{fmt.Sprintf("nobody can tell what %.200q is", text), hintSearch}
	}
	return q, "aggregate " + text, []string{"--aggregate", text}, nil
}

// requestColumns is how many values a request has; the last of them may have slashes in it.
func requestColumns(m *spec.Model) int {
	for _, e := range m.Events {
		if e.Source != nil {
			return len(e.Source.Request)
		}
	}
	return -1
}
