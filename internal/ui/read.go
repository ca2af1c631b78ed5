package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// meta is what the page has to know before it shows anything.
type meta struct {
	Service   string         `json:"service"`
	Ordering  string         `json:"ordering"`
	Write     bool           `json:"write"`
	Operator  string         `json:"operator"`
	Types     []string       `json:"types"`
	Consumers []consumerMeta `json:"consumers"`
	Requests  []string       `json:"requests"` // what stands behind "request:" in a search
}

type consumerMeta struct {
	Name    string   `json:"name"`
	Handles []string `json:"handles"`
}

func (s *Server) getMeta(*http.Request) (any, error) {
	m := s.cfg.Source.Model()
	out := meta{
		Service: m.Service.Text, Ordering: string(m.Outbox.Ordering), Write: s.cfg.AllowWrite, Operator: ops.Operator(),
		Types: []string{}, Consumers: []consumerMeta{}, Requests: []string{},
	}
	for _, e := range m.Events {
		out.Types = append(out.Types, e.Name.Text)
		if e.Source == nil {
			continue
		}
		columns := make([]string, len(e.Source.Request))
		for i, c := range e.Source.Request {
			columns[i] = strings.ToUpper(c.Text)
		}
		out.Requests = append(out.Requests, strings.Join(columns, "/"))
	}
	for _, c := range m.Consumers {
		handles := []string{}
		for _, e := range c.Handles {
			handles = append(handles, e.Name.Text)
		}
		out.Consumers = append(out.Consumers, consumerMeta{c.Name.Text, handles})
	}
	return out, nil
}

func (s *Server) getStatus(r *http.Request) (any, error) {
	st, err := s.status.get(r.Context(), s.cfg.Source.Status)
	return told{s.command([]string{"status"}), st}, err
}

func (s *Server) getEvent(r *http.Request) (any, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, badRequest{fmt.Sprintf("%q is not an event id", r.PathValue("id")), hintID}
	}
	life, err := s.cfg.Source.Show(r.Context(), id)
	return told{s.command([]string{"show", id.String()}), life}, err
}

const hintID = "an event id is a UUID, such as 019b76da-a800-7000-8000-000000000001"

// filter narrows the lists of dead and parked events, and selections of them.
type filter struct {
	Type      string `json:"type"`
	Kind      string `json:"kind"`
	Aggregate string `json:"aggregate"` // order/123
	Older     string `json:"older"`     // than a duration: 2h
	Newer     string `json:"newer"`
}

func filterOf(q url.Values) filter {
	return filter{q.Get("type"), q.Get("kind"), q.Get("aggregate"), q.Get("older"), q.Get("newer")}
}

func (f filter) flags() []string {
	return []string{"--type", f.Type, "--kind", f.Kind, "--aggregate", f.Aggregate, "--before", f.Older, "--after", f.Newer}
}

// selection is what the filter leaves.
func (f filter) selection() (sel ops.Selection, err error) {
	sel.Type, sel.Kind = f.Type, f.Kind
	if f.Aggregate != "" {
		if sel.AggregateType, sel.AggregateID, err = aggregate(f.Aggregate); err != nil {
			return sel, err
		}
	}
	if sel.Before, err = ago(f.Older); err != nil {
		return sel, err
	}
	sel.After, err = ago(f.Newer)
	return sel, err
}

func aggregate(text string) (typ, id string, err error) {
	typ, id, _ = strings.Cut(text, "/")
	if typ == "" || id == "" {
		return "", "", badRequest{fmt.Sprintf("%q is not an aggregate", text), "write its type and its id: order/123"}
	}
	return typ, id, nil
}

// ago is the time so long ago; zero for no text.
func ago(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, badRequest{fmt.Sprintf("%q is not a duration", text), "write 90m or 48h"}
	}
	return time.Now().Add(-d), nil
}

func (s *Server) getDead(r *http.Request) (any, error) {
	q := r.URL.Query()
	f := filterOf(q)
	sel, err := f.selection()
	if err != nil {
		return nil, err
	}
	args := []string{"dead", "list"}
	if q.Get("discarded") != "" {
		args = append(args, "--discarded")
	}
	page, err := s.cfg.Source.Dead(r.Context(), ops.DeadQuery{
		Type: sel.Type, Kind: sel.Kind, AggregateType: sel.AggregateType, AggregateID: sel.AggregateID,
		Before: sel.Before, After: sel.After, Discarded: q.Get("discarded") != "", Cursor: q.Get("cursor"),
	})
	return told{s.command(args, append(f.flags(), "--cursor", q.Get("cursor"))...), page}, err
}

func (s *Server) getParked(r *http.Request) (any, error) {
	q := r.URL.Query()
	f := filterOf(q)
	sel, err := f.selection()
	if err != nil {
		return nil, err
	}
	page, err := s.cfg.Source.Parked(r.Context(), ops.ParkedQuery{
		Consumer: q.Get("consumer"), Type: sel.Type, Kind: sel.Kind, AggregateType: sel.AggregateType, AggregateID: sel.AggregateID,
		Before: sel.Before, After: sel.After, Cursor: q.Get("cursor"),
	})
	args := []string{"parked", "list"}
	if consumer := q.Get("consumer"); consumer != "" {
		args = append(args, consumer)
	}
	return told{s.command(args, append(f.flags(), "--cursor", q.Get("cursor"))...), page}, err
}

func (s *Server) getAudit(r *http.Request) (any, error) {
	q := r.URL.Query()
	query := ops.AuditQuery{Operator: q.Get("operator"), Operation: q.Get("operation"), Cursor: q.Get("cursor")}
	if text := q.Get("event"); text != "" {
		var err error
		if query.EventID, err = uuid.Parse(text); err != nil {
			return nil, badRequest{fmt.Sprintf("%q is not an event id", text), hintID}
		}
	}
	page, err := s.cfg.Source.Audit(r.Context(), query)
	return told{s.command([]string{"audit"}, "--event", q.Get("event"), "--operator", query.Operator, "--operation", query.Operation, "--cursor", query.Cursor), page}, err
}
