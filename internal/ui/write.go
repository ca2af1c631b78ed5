package ui

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// change is what somebody wants to be done with dead or parked events.
type change struct {
	Of        string      `json:"of"`       // dead or parked
	Do        string      `json:"do"`       // redrive or discard
	Consumer  string      `json:"consumer"` // of parked ones
	IDs       []uuid.UUID `json:"ids"`      // or else all that the filter leaves
	Filter    filter      `json:"filter"`
	Discarded bool        `json:"discarded"` // discarded events in place of dead ones
}

// plan is a change that somebody has been shown, and may now make.
type plan struct {
	change change
	ops    ops.Plan
}

// planned is a plan as it is shown.
type planned struct {
	ID    string       `json:"id"`
	Count int          `json:"count"`
	Typed bool         `json:"typed"` // their number has to be typed
	Text  string       `json:"text"`  // as the command prints it
	Gone  []ops.Result `json:"gone"`  // of those that were named
}

const (
	// mostPlans bounds the plans that are kept, each of up to 100,000 events.
	mostPlans = 8

	// typedAbove is how many events are changed without their number being typed.
	typedAbove = 20

	maxRate = 10_000
)

// postPlan shows what would be done. It changes nothing.
func (s *Server) postPlan(r *http.Request) (any, error) {
	var c change
	if err := read(r, &c); err != nil {
		return nil, err
	}
	sel := ops.Selection{IDs: c.IDs}
	if len(c.IDs) == 0 {
		var err error
		if sel, err = c.Filter.selection(); err != nil {
			return nil, err
		}
		sel.All = true
	}
	sel.Discarded = c.Discarded && c.Of == "dead"
	p := plan{change: c}
	var err error
	switch {
	case c.verb() == "":
		return nil, badRequest{"this can't be done with events", ""}
	case c.Of == "dead":
		p.ops, err = s.cfg.Source.PlanDead(r.Context(), sel)
	default:
		p.ops, err = s.cfg.Source.PlanParked(r.Context(), c.Consumer, sel)
	}
	if err != nil {
		return nil, err
	}
	n := len(p.ops.Events)
	out := planned{s.plans.put(p, mostPlans), n, n > typedAbove, s.cfg.PlanText(c.verb(), p.ops), p.ops.Gone}
	return told{s.commandOf(c), out}, nil
}

// verb is what is done with the events, as the commands say it; nothing for what can't be done.
func (c change) verb() string {
	return map[string]string{
		"dead redrive": "made due again", "dead discard": "discarded",
		"parked redrive": "handed to " + c.Consumer + " again", "parked discard": "discarded",
	}[c.Of+" "+c.Do]
}

// commandOf is the command that does a change, with flags behind it.
func (s *Server) commandOf(c change, flags ...string) string {
	args := []string{c.Of, c.Do}
	if c.Of == "parked" {
		args = append(args, c.Consumer)
	}
	for _, id := range c.IDs {
		args = append(args, id.String())
	}
	if len(c.IDs) == 0 {
		if c.Filter == (filter{}) {
			args = append(args, "--all")
		}
		flags = append(c.Filter.flags(), flags...)
	}
	if c.Discarded && c.Of == "dead" {
		args = append(args, "--discarded")
	}
	return s.command(args, flags...)
}

// order is the word to make a change that was shown.
type order struct {
	Plan   string `json:"plan"`
	Typed  string `json:"typed"` // the number of events, above typedAbove
	Rate   int    `json:"rate"`  // events a second, 0 for no limit
	Reason string `json:"reason"`
}

// postRun makes a change, once, and answers with the job that does it.
func (s *Server) postRun(r *http.Request) (any, error) {
	var o order
	if err := read(r, &o); err != nil {
		return nil, err
	}
	p, there := s.plans.get(o.Plan)
	if !there {
		return nil, errNoPlan
	}
	n := len(p.ops.Events)
	switch {
	case n == 0:
		return nil, badRequest{"no event is selected: nothing would be done", ""}
	case n > typedAbove && strings.TrimSpace(o.Typed) != strconv.Itoa(n):
		return nil, badRequest{fmt.Sprintf("these are %d events", n), "type their number to say that you mean all of them"}
	case o.Rate < 0 || o.Rate > maxRate:
		return nil, badRequest{fmt.Sprintf("%d events a second can't be kept to", o.Rate), fmt.Sprintf("give 1 to %d, or 0 for no limit", maxRate)}
	case p.change.Do == "discard" && strings.TrimSpace(o.Reason) == "":
		return nil, badRequest{"the reason is missing", "say why: it is all that will be known of these events later"}
	}
	if p, there = s.plans.take(o.Plan); !there {
		return nil, errNoPlan // the other of two clicks was first
	}
	flags := []string{"--reason", o.Reason}
	if p.change.Do == "redrive" {
		flags = []string{"--rate", strconv.Itoa(o.Rate)}
	}
	j := &job{verb: p.change.verb(), total: n, results: p.ops.Gone, planned: map[uuid.UUID]bool{}}
	for _, e := range p.ops.Events {
		j.planned[e.EventID] = true
	}
	id := s.jobs.put(j, mostJobs)
	s.work.Go(func() { j.end(s.carryOut(s.begun, j, p, o)) })
	return told{s.commandOf(p.change, flags...) + " --yes", struct {
		Job string `json:"job"`
	}{id}}, nil
}

var errNoPlan = badRequest{"what was shown is not known any more", "close the dialog and look again: nothing was changed by this"}

func (s *Server) postPause(r *http.Request) (any, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body.Reason) == "" {
		return nil, badRequest{"the reason is missing", "say why, for those who find it paused"}
	}
	p, already, err := s.cfg.Source.PauseClaims(r.Context(), body.Reason)
	s.status.forget()
	return told{s.command([]string{"pause"}, "--reason", body.Reason), struct {
		Already bool       `json:"already"`
		Pause   *ops.Pause `json:"pause"`
	}{already, p}}, err
}

func (s *Server) postResume(r *http.Request) (any, error) {
	p, err := s.cfg.Source.ResumeClaims(r.Context())
	s.status.forget()
	return told{s.command([]string{"resume"}), struct {
		Ended *ops.Pause `json:"ended"`
	}{p}}, err
}

// read decodes a body, and says so when it can't.
func read(r *http.Request, into any) error {
	err := decode(r, into)
	if tooLong := (*http.MaxBytesError)(nil); err == nil || errors.As(err, &tooLong) {
		return err
	}
	return badRequest{"the request can't be read: " + err.Error(), "reload the page: it may be older than the program"}
}
