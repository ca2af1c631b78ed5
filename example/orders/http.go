package orders

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 256 << 10

// Handler serves POST /orders, POST /orders/{id}/cancel and GET /orders/{id}.
// The tenant comes in the X-Tenant-ID header; in a real service it comes from
// whoever is signed in.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("POST /orders/{id}/cancel", s.postCancel)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	return mux
}

type orderRequest struct {
	RequestID string                 `json:"request_id"`
	Currency  orderevents.Currency   `json:"currency"`
	Lines     []orderevents.LineItem `json:"lines"`
	Note      *string                `json:"note,omitzero"`
}

type orderResponse struct {
	ID      int64  `json:"id"`
	Version int64  `json:"version"`
	Status  string `json:"status"`
	Total   string `json:"total"`
	EventID string `json:"event_id"`
	Event   string `json:"event,omitzero"` // PENDING, PUBLISHING, PUBLISHED or DEAD
}

func (s *Service) postOrder(w http.ResponseWriter, r *http.Request) {
	tenantID, ok := tenant(w, r)
	if !ok {
		return
	}
	var in orderRequest
	if !decode(w, r, &in) {
		return
	}
	order, created, err := s.Accept(r.Context(), Request{
		TenantID: tenantID, RequestID: in.RequestID, Currency: in.Currency, Lines: in.Lines, Note: in.Note,
	})
	if err != nil {
		fail(w, err)
		return
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	respond(w, status, response(order))
}

func (s *Service) postCancel(w http.ResponseWriter, r *http.Request) {
	tenantID, id, ok := tenantAndID(w, r)
	if !ok {
		return
	}
	var in struct {
		Reason orderevents.OrderCancelledReason `json:"reason"`
	}
	if !decode(w, r, &in) {
		return
	}
	order, err := s.Cancel(r.Context(), tenantID, id, in.Reason)
	if err != nil {
		fail(w, err)
		return
	}
	respond(w, http.StatusOK, response(order))
}

func (s *Service) getOrder(w http.ResponseWriter, r *http.Request) {
	tenantID, id, ok := tenantAndID(w, r)
	if !ok {
		return
	}
	order, err := s.Get(r.Context(), tenantID, id)
	if err != nil {
		fail(w, err)
		return
	}
	out := response(order)
	// After retention the event row may be gone; the order stands without it.
	if state, err := s.EventState(r.Context(), order); err == nil {
		out.Event = state.State
	}
	respond(w, http.StatusOK, out)
}

func response(o Order) orderResponse {
	return orderResponse{
		ID: o.ID, Version: o.Version, Status: o.Status, Total: o.Total.String(), EventID: o.EventID.String(),
	}
}

func tenant(w http.ResponseWriter, r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.Header.Get("X-Tenant-ID"), 10, 64)
	if err != nil {
		http.Error(w, "X-Tenant-ID is missing or not a number", http.StatusUnauthorized)
	}
	return id, err == nil
}

func tenantAndID(w http.ResponseWriter, r *http.Request) (tenantID, id int64, ok bool) {
	if tenantID, ok = tenant(w, r); !ok {
		return 0, 0, false
	}
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.Error(w, "no such order", http.StatusNotFound)
	}
	return tenantID, id, err == nil
}

// decode reads a body that is one JSON object and nothing else.
func decode(w http.ResponseWriter, r *http.Request, in any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(in)
	if err == nil {
		_, err = dec.Token()
		if errors.Is(err, io.EOF) {
			return true
		}
		err = errors.New("more than one JSON value")
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
	} else {
		http.Error(w, "the body is not the JSON object expected", http.StatusBadRequest)
	}
	return false
}

// fail answers an error. What isn't the caller's own mistake stays in our log.
func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrAgain):
		w.Header().Set("Retry-After", "1")
		http.Error(w, ErrAgain.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, ErrOutOfStock):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		slog.Error("request failed", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has gone away
}
