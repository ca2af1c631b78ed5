package outboxhealth_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
)

// store has nothing to claim, or one event; a claim may hang.
type store struct {
	hang  atomic.Pointer[chan struct{}]
	event bool
}

func (s *store) Claim(context.Context, outbox.ClaimRequest) (*outbox.Batch, error) {
	if c := s.hang.Load(); c != nil {
		<-*c
	}
	if !s.event {
		return nil, nil
	}
	id := outbox.NewEventID()
	return &outbox.Batch{Events: []outbox.Event{{Key: id.String(), Envelope: outbox.Envelope{ID: id}}}}, nil
}
func (*store) Settle(context.Context, *outbox.Batch, []outbox.EventOutcome) (outbox.Settlement, error) {
	return outbox.Settlement{}, nil
}
func (*store) Renew(context.Context, *outbox.Batch, time.Duration) (int, error) { return 1, nil }
func (*store) Release(context.Context, outbox.Owner) error                      { return nil }
func (*store) Backlog(context.Context) (outbox.Backlog, error)                  { return outbox.Backlog{}, nil }

type away struct{}

func (away) Publish(_ context.Context, m []outbox.Envelope) []error {
	results := make([]error, len(m))
	for i := range results {
		results[i] = outbox.PublishUnavailable(errors.New("secret"))
	}
	return results
}

func start(t *testing.T, s *store) (relay *outbox.Relay, stop func()) {
	t.Helper()
	relay, err := outbox.NewRelay(s, away{}, &outbox.RelayConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	synctest.Wait()
	return relay, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// get asks a probe.
func get(t *testing.T, h *outboxhealth.Health, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var parsed struct{ Status string }
	if err := json.Unmarshal(w.Body.Bytes(), &parsed); err != nil || (parsed.Status == "ok") != (w.Code == http.StatusOK) {
		t.Errorf("%d: %s (%v)", w.Code, w.Body, err)
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the body tells %s", w.Body)
	}
	return w.Code, w.Body.String()
}

func want(t *testing.T, h *outboxhealth.Health, path string, ok bool, text string) {
	t.Helper()
	code, body := get(t, h, path)
	if (code == http.StatusOK) != ok || !strings.Contains(body, text) {
		t.Errorf("%s: %d %s; want ok %v with %s", path, code, body, ok, text)
	}
}

// A relay that waits for its broker is alive and, after a time, not ready.
func TestRelayWithoutABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay, stop := start(t, &store{event: true})
		h := outboxhealth.New(outboxhealth.Config{Relays: []*outbox.Relay{relay}})
		time.Sleep(30 * time.Second)
		want(t, h, "/readyz", true, `"relay"`)
		time.Sleep(time.Hour)
		want(t, h, "/healthz", true, `"relay"`)
		want(t, h, "/readyz", false, `"reason":"broker","for":"1h0m30s"`)
		stop()
		want(t, h, "/healthz", false, `"stopped"`)
		want(t, h, "/readyz", false, `"stopped"`)
	})
}

func TestRelayWhoseLoopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		relay, stop := start(t, s)
		h := outboxhealth.New(outboxhealth.Config{Relays: []*outbox.Relay{relay}})
		time.Sleep(time.Hour)
		want(t, h, "/healthz", true, `"ok"`)
		release := make(chan struct{})
		s.hang.Store(&release)
		time.Sleep(time.Minute)
		want(t, h, "/healthz", true, `"ok"`)
		time.Sleep(2 * time.Minute)
		want(t, h, "/healthz", false, `"silent"`)
		close(release)
		time.Sleep(time.Second)
		want(t, h, "/healthz", true, `"ok"`)
		stop()
	})
}

func TestDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(context.Context) error { return nil }
		h := outboxhealth.New(outboxhealth.Config{Database: func(ctx context.Context) error { return ask(ctx) }})
		want(t, h, "/readyz", true, `"database"`)
		want(t, h, "/healthz", true, `"checks":[]`)
		ask = func(context.Context) error { return errors.New("dial tcp: user secret") }
		want(t, h, "/readyz", false, `"reason":"database"`)
		want(t, h, "/healthz", true, "") // a restart doesn't bring it back
		ask = func(context.Context) error { panic("secret") }
		want(t, h, "/readyz", false, `"reason":"database"`)
		var asked atomic.Int64
		hang := make(chan struct{})
		ask = func(context.Context) error { asked.Add(1); <-hang; return nil }
		want(t, h, "/readyz", false, `"reason":"database"`)
		want(t, h, "/readyz", false, `"reason":"database"`)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while the first question hangs", n)
		}
		close(hang)
		synctest.Wait()
		want(t, h, "/readyz", true, `"ok"`)
	})
}

func TestRun(t *testing.T) {
	h := outboxhealth.New(outboxhealth.Config{})
	failure := errors.New("secret")
	err := h.Run("subscription planner", func() error {
		want(t, h, "/healthz", true, "subscription planner")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("Run returned %v", err)
	}
	want(t, h, "/healthz", false, `"name":"subscription planner","ok":false,"reason":"stopped"`)
	want(t, h, "/readyz", false, `"stopped"`)
}
