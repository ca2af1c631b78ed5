package outboxhealth

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

// answer is the body of an answer.
type answer struct {
	Status string  `json:"status"` // ok or failing
	Checks []State `json:"checks"`
}

// Handler serves /healthz, which tells whether the process is alive, and /readyz, which
// tells whether it is ready: 200 or 503, and a JSON object that says what is wrong. It
// holds no addresses, names of users or texts of errors.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, h.Live()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { respond(w, h.Ready(r.Context())) })
	return mux
}

func respond(w http.ResponseWriter, states []State) {
	out, code := answer{Status: "ok", Checks: states}, http.StatusOK
	if states == nil {
		out.Checks = []State{}
	}
	if slices.ContainsFunc(states, func(s State) bool { return !s.OK }) {
		out.Status, code = "failing", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(out) // the caller has gone away
}

// runsLive are the states of what Run was called with, by name.
func (h *Health) runsLive() []State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var states []State
	for _, name := range slices.Sorted(maps.Keys(h.runs)) {
		s := State{Name: name, OK: h.runs[name]}
		if !s.OK {
			s.Reason = "stopped"
		}
		states = append(states, s)
	}
	return states
}
