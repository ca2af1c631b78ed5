package outboxtest

import (
	"context"
	"sync"
)

// WithLink returns a context for [Broker.Subscribe] whose connection can be cut, as by
// the death of its process: what is out is delivered again at once, to others, nothing more
// is delivered to it, and what its handlers say counts for nothing.
func WithLink(ctx context.Context) (_ context.Context, cut func()) {
	l := new(link)
	return context.WithValue(ctx, linkKey{}, l), l.cut
}

type linkKey struct{}

type link struct {
	mu   sync.Mutex
	done bool
	subs []*subscription
}

func linkOf(ctx context.Context) *link {
	l, _ := ctx.Value(linkKey{}).(*link)
	return l
}

func (l *link) add(s *subscription) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs = append(l.subs, s)
	if l.done {
		s.lose()
	}
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	for _, s := range l.subs {
		s.lose()
	}
}

func (s *subscription) lose() {
	s.broker.change(func() {
		s.cut = true
		for i, d := range s.group.flight {
			if d.sub == s {
				delete(s.group.flight, i)
			}
		}
	})
}
