package sim

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

var errDead = errors.New("the process is dead")

// actor is a process. All it does to the world passes its gate.
type actor struct {
	w       *world
	role    string
	db      *outbox.DB
	ctx     context.Context
	stop    context.CancelFunc // as SIGTERM
	cutLink func()             // to the broker
	dead    chan struct{}      // closed by kill
	ended   chan struct{}      // closed when its run has returned

	mu     sync.Mutex
	killed bool
	frozen time.Time // until then
}

type actorKey struct{}

func (w *world) newActor(role string) *actor {
	a := &actor{w: w, role: role, dead: make(chan struct{}), ended: make(chan struct{})}
	client := &fakemysql.Client{Name: role, Gate: a.gate}
	pool := sql.OpenDB(mysqldb.Guard(w.server.Connector(client)))
	pool.SetMaxIdleConns(16)
	a.db = mysqldb.Wrap(pool)
	ctx := context.WithValue(w.ctx, actorKey{}, a)
	ctx, a.cutLink = outboxtest.WithLink(ctx)
	a.ctx, a.stop = context.WithCancel(ctx)
	w.addActor(a)
	return a
}

// gate waits while the process is stopped, until ctx ends. Of a dead one nothing passes:
// what it still does reaches nobody.
func (a *actor) gate(ctx context.Context) error {
	for {
		a.mu.Lock()
		killed, wait := a.killed, time.Until(a.frozen)
		a.mu.Unlock()
		switch {
		case killed:
			return errDead
		case wait <= 0:
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.w.healed:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// goOn is gate, whatever ends meanwhile.
func (a *actor) goOn() error { return a.gate(context.Background()) }

// freeze is SIGSTOP, and SIGCONT after a time.
func (a *actor) freeze(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = time.Now().Add(d)
}

// kill is SIGKILL.
func (a *actor) kill() {
	a.mu.Lock()
	killed := a.killed
	a.killed = true
	a.mu.Unlock()
	if killed {
		return
	}
	a.w.server.HangUp(a.role)
	a.cutLink()
	a.stop()
	close(a.dead)
}

func (a *actor) isDead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killed
}

// at is passed at the points of the runtime.
func (a *actor) at(ctx context.Context, p fault.Point) error {
	if a.w.explorer != nil {
		return a.w.explorer.park(ctx, a, p)
	}
	if err := a.goOn(); err != nil {
		return err
	}
	if tag := fakemysql.TagOf(ctx); tag != "" { // of those that are here at once, one comes first
		time.Sleep(time.Duration(1 + a.w.mix(0, string(p), tag)%1000))
	}
	f, ok := a.w.triggered(a.role, string(p), func(f Fault) bool { return f.Point == p })
	if !ok {
		return nil
	}
	switch f.Action {
	case Kill:
		a.kill()
		return a.goOn()
	case Stop:
		a.freeze(f.For)
		return a.goOn()
	case Error:
		return fault.ErrInjected
	default:
		sleep(ctx, f.For)
		return a.goOn()
	}
}

// sleep waits for d or until ctx ends, and reports whether it waited d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// supervise keeps a role alive: after a death, or an end that was asked for, it starts
// a new process.
func (w *world) supervise(role string, run func(*actor)) {
	w.running.Go(func() {
		for w.ctx.Err() == nil {
			a := w.newActor(role)
			w.running.Go(func() {
				defer close(a.ended)
				run(a)
			})
			select {
			case <-a.ended:
			case <-a.dead:
			}
			if role[:6] == "writer" && !a.isDead() {
				return // it has done its work
			}
			timer := time.NewTimer(w.restartDelay(role))
			select {
			case <-timer.C:
			case <-w.healed:
			case <-w.ctx.Done():
			}
			timer.Stop()
		}
	})
}
