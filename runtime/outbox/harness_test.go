package outbox_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var quiet = slog.New(slog.DiscardHandler)

// startRelay runs a relay in the test's bubble; stop ends it and waits.
func startRelay(t *testing.T, s outbox.Store, p outbox.Publisher, cfg outbox.RelayConfig) (r *outbox.Relay, stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	r, err := outbox.NewRelay(s, p, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if m, ok := s.(interface{ broken() []string }); ok {
				for _, v := range m.broken() {
					t.Errorf("against the store's contract: %s", v)
				}
			}
		})
	}
	t.Cleanup(stop)
	return r, stop
}

// publisherFunc answers for one message at a time.
type publisherFunc func(ctx context.Context, e outbox.Envelope) error

func (f publisherFunc) Publish(ctx context.Context, messages []outbox.Envelope) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		results[i] = f(ctx, m)
	}
	return results
}

// publisherBatch answers for whole batches.
type publisherBatch func(m []outbox.Envelope) []error

func (f publisherBatch) Publish(_ context.Context, m []outbox.Envelope) []error { return f(m) }

// publisherWithContext answers for whole batches, and sees the context.
type publisherWithContext func(ctx context.Context, m []outbox.Envelope) []error

func (f publisherWithContext) Publish(ctx context.Context, m []outbox.Envelope) []error {
	return f(ctx, m)
}

// confirmAll is a publisher that confirms at once.
var confirmAll = publisherBatch(func(m []outbox.Envelope) []error { return make([]error, len(m)) })

// answerAll returns the same answer for each message.
func answerAll(m []outbox.Envelope, err error) []error {
	results := make([]error, len(m))
	for i := range results {
		results[i] = err
	}
	return results
}

// logBook counts lines.
type logBook struct {
	mu    sync.Mutex
	lines []string // level and message
	text  strings.Builder
}

func newLogBook() (*logBook, *slog.Logger) {
	b := &logBook{}
	return b, slog.New(bookHandler{slog.NewTextHandler(lockedWriter{b}, nil), b})
}

type lockedWriter struct{ b *logBook }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.text.Write(p)
}

type bookHandler struct {
	slog.Handler
	b *logBook
}

func (h bookHandler) Handle(ctx context.Context, r slog.Record) error {
	h.b.mu.Lock()
	h.b.lines = append(h.b.lines, r.Level.String()+" "+r.Message)
	h.b.mu.Unlock()
	return h.Handler.Handle(ctx, r)
}

func (h bookHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return bookHandler{h.Handler.WithAttrs(a), h.b}
}

// count returns how many lines hold the text.
func (b *logBook) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, line := range b.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func contains(b *logBook, text string) bool { return strings.Contains(b.String(), text) }
