package outboxtest

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// logBook keeps what relays and broker log, and what writers return as errors.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var _ io.Writer = (*logBook)(nil)

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// has reports whether one of the values was logged.
func (l *logBook) has(values []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return hasAny(l.text.String(), values)
}

func hasAny(text string, values []string) bool {
	for _, v := range values {
		if strings.Contains(text, v) {
			return true
		}
	}
	return false
}
