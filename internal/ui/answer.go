package ui

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// patience bounds what the databases are asked for one request.
const patience = 30 * time.Second

// told is an answer with the command line that tells or does the same.
type told struct {
	Command string `json:"command,omitempty"`
	Data    any    `json:"data"`
}

// badRequest is what somebody asked for that can't be answered.
type badRequest struct{ message, hint string }

func (b badRequest) Error() string { return b.message }

// answer turns what a function returns, or its error, into JSON.
func answer(s *Server, do func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		data, err := do(r.WithContext(ctx))
		if err != nil {
			code, p := s.problem(err)
			writeJSON(w, code, p)
			return
		}
		writeJSON(w, http.StatusOK, data)
	})
}

// problem is how the page is told of an error.
func (s *Server) problem(err error) (int, problem) {
	var bad badRequest
	var tooLong *http.MaxBytesError
	var unknown *ops.NotKnownError
	switch {
	case errors.As(err, &bad):
		return http.StatusBadRequest, problem{bad.message, bad.hint}
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge, problem{"this is too much for one request", "select all of the filter in place of single events"}
	case errors.As(err, &unknown):
		return http.StatusNotFound, problem{err.Error(), s.cfg.Hint(err)}
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, problem{"the database took longer than " + patience.String(), "it may be overloaded; the page asks again"}
	}
	return http.StatusBadGateway, problem{err.Error(), s.cfg.Hint(err)}
}

// statusCache shares one look at the database among all open pages.
type statusCache struct {
	mu   sync.Mutex
	last ops.Status
	read time.Time
}

// statusAge is how old a shared status may be.
const statusAge = time.Second

func (c *statusCache) get(ctx context.Context, read func(context.Context) (ops.Status, error)) (ops.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.read) < statusAge {
		return c.last, nil
	}
	st, err := read(ctx)
	if err != nil {
		return st, err
	}
	c.last, c.read = st, time.Now()
	return st, nil
}

// forget makes the next look a new one.
func (c *statusCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

// shelf keeps things by ids that nobody can guess; the oldest go when it is full.
type shelf[T any] struct {
	mu    sync.Mutex
	order []string
	have  map[string]T
}

func (s *shelf[T]) put(thing T, most int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have == nil {
		s.have = map[string]T{}
	}
	for len(s.order) >= most {
		delete(s.have, s.order[0])
		s.order = s.order[1:]
	}
	id := random()
	s.order = append(s.order, id)
	s.have[id] = thing
	return id
}

func (s *shelf[T]) get(id string) (thing T, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	thing, there = s.have[id]
	return thing, there
}

// take is get, and then it is gone.
func (s *shelf[T]) take(id string) (thing T, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	thing, there = s.have[id]
	delete(s.have, id)
	return thing, there
}
