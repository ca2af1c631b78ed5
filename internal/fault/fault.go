// Package fault has the points at which tests make the runtime fail: kill its process,
// stop it, delay it, or have it see an error. Without a hook a point is one atomic read.
//
// The points are those of docs/verification.md.
package fault

import (
	"context"
	"sync/atomic"
)

// Hook is called at each point, by the goroutine that passes it. What it returns
// is seen there as the error of the operation that comes next, or, at the points
// named …Reply, as that of the COMMIT that did succeed. At points behind which nothing can
// fail any more it is dropped.
type Hook func(ctx context.Context, p Point) error

var hook atomic.Pointer[Hook]

// Set makes h the hook of this process until restore is called. nil is none.
func Set(h Hook) (restore func()) {
	var next *Hook
	if h != nil {
		next = &h
	}
	before := hook.Swap(next)
	return func() { hook.Store(before) }
}

// At passes a point.
func At(ctx context.Context, p Point) error {
	h := hook.Load()
	if h == nil || p == "" {
		return nil
	}
	return (*h)(ctx, p)
}

type scopeKey struct{}

// In says whose the transactions are that ctx is used for. Defaults to Writer.
func In(ctx context.Context, s Scope) context.Context {
	if hook.Load() == nil {
		return ctx
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// Begun is At the beginning of a transaction that ctx is used for.
func Begun(ctx context.Context) error { return at(ctx, begun) }

// Unsent is At the moment before its COMMIT.
func Unsent(ctx context.Context) error { return at(ctx, unsent) }

// Reply is At the moment at which the server has answered COMMIT with success.
func Reply(ctx context.Context) error { return at(ctx, reply) }

// Committed is At the moment at which the caller is told.
func Committed(ctx context.Context) error { return at(ctx, committed) }

func at(ctx context.Context, s step) error {
	if hook.Load() == nil {
		return nil
	}
	scope, _ := ctx.Value(scopeKey{}).(Scope)
	return At(ctx, txPoints[scope][s])
}

type actorKey struct{}

// WithActor names who works with ctx, for hooks that tell several apart.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// Actor is the name in ctx, or empty.
func Actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}
