package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// mostJobs bounds the jobs whose results are kept.
const mostJobs = 50

// job is a change that is being made.
type job struct {
	verb    string
	total   int
	planned map[uuid.UUID]bool // the events that it is about

	mu       sync.Mutex
	reached  int
	waiting  int // redrives that a consumer's processes haven't carried out
	results  []ops.Result
	finished bool
	err      error
}

// jobState is a job as the page shows it.
type jobState struct {
	Verb     string       `json:"verb"`
	Total    int          `json:"total"`
	Reached  int          `json:"reached"` // of total
	Waiting  int          `json:"waiting"`
	Done     int          `json:"done"` // of the results
	Finished bool         `json:"finished"`
	Results  []ops.Result `json:"results"` // those with a note first, up to shownResults
	More     int          `json:"more"`    // results that are not shown
	Problem  *problem     `json:"problem,omitempty"`
}

const shownResults = 200

func (s *Server) getJob(r *http.Request) (any, error) {
	j, there := s.jobs.get(r.PathValue("id"))
	if !there {
		return nil, badRequest{"this change is not known any more", "what was done is in the audit"}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	st := jobState{Verb: j.verb, Total: j.total, Reached: j.reached, Waiting: j.waiting, Finished: j.finished}
	for _, result := range j.results {
		if result.Done && j.planned[result.EventID] {
			st.Done++
		}
	}
	st.Results = slices.Clone(j.results)
	slices.SortStableFunc(st.Results, func(a, b ops.Result) int { return rank(a) - rank(b) })
	if n := len(st.Results); n > shownResults {
		st.Results, st.More = st.Results[:shownResults], n-shownResults
	}
	if st.Results == nil {
		st.Results = []ops.Result{}
	}
	if j.err != nil {
		_, p := s.problem(j.err)
		st.Problem = &p
	}
	return told{Data: st}, nil
}

// rank puts what people have to read first.
func rank(r ops.Result) int {
	switch {
	case !r.Done:
		return 0
	case r.Note != "":
		return 1
	}
	return 2
}

func (j *job) progress(done, _ int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reached = done
}

func (j *job) add(results []ops.Result) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results = append(j.results, results...)
}

func (j *job) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.finished, j.err = true, err
}

// carryOut makes a change.
func (s *Server) carryOut(ctx context.Context, j *job, p plan, o order) error {
	pace := ops.Pace{PerSecond: o.Rate, Progress: j.progress}
	if p.change.Do == "discard" {
		pace.PerSecond = 0
	}
	var results []ops.Result
	var err error
	switch p.change.Of + " " + p.change.Do {
	case "dead redrive":
		results, err = s.cfg.Source.RedriveDead(ctx, p.ops, pace)
	case "dead discard":
		results, err = s.cfg.Source.DiscardDead(ctx, p.ops, o.Reason, pace)
	case "parked discard":
		results, err = s.cfg.Source.DiscardParked(ctx, p.ops, o.Reason, pace)
	case "parked redrive":
		return s.redriveParked(ctx, j, p.ops, pace)
	}
	j.add(results)
	return err
}

const (
	// awaitEvery is how often a job looks what came of redrives.
	awaitEvery = 500 * time.Millisecond

	// awaitMost is how long it looks without anything coming of them.
	awaitMost = 2 * time.Minute
)

// redriveParked asks for redrives and follows what comes of them.
func (s *Server) redriveParked(ctx context.Context, j *job, p ops.Plan, pace ops.Pace) error {
	since, err := s.cfg.Source.LastAudit(ctx, p.Consumer)
	if err != nil {
		return err
	}
	asked, err := s.cfg.Source.RedriveParked(ctx, p, pace)
	var ids []uuid.UUID
	for _, r := range asked {
		if r.Done {
			ids = append(ids, r.EventID)
		} else {
			j.add([]ops.Result{r})
		}
	}
	open := map[uuid.UUID]bool{}
	for _, id := range ids {
		open[id] = true
	}
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for last := time.Now(); err == nil && len(open) > 0 && time.Since(last) < awaitMost; {
		var came []ops.Result
		var waiting int
		if came, waiting, err = s.cfg.Source.RedriveResults(ctx, p.Consumer, ids, since); err != nil {
			break
		}
		for _, r := range came {
			if open[r.EventID] {
				delete(open, r.EventID)
				j.add([]ops.Result{r})
				last = time.Now()
			}
		}
		if j.wait(waiting); waiting == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	for _, id := range ids {
		if open[id] {
			note := fmt.Sprintf("asked for, and not carried out yet: does a process of %s run that was built with this version? It will take it when it does", p.Consumer)
			j.add([]ops.Result{{EventID: id, Consumer: p.Consumer, Note: note}})
		}
	}
	return err
}

func (j *job) wait(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = n
}
