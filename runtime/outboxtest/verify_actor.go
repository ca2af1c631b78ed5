package outboxtest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

var errDead = errors.New("outboxtest: this process was made to die")

// actor stands for a process: a writer, a relay or a consumer.
type actor struct {
	v      *verification
	name   string
	proxy  *mysqlproxy.Proxy
	db     *outbox.DB
	ctx    context.Context //nolint:containedctx // of everything that it runs
	cancel context.CancelFunc

	dead    atomic.Bool
	died    chan struct{}
	death   sync.Once
	end     sync.Once
	running sync.WaitGroup
}

func (v *verification) newActor(ctx context.Context, name string) (*actor, error) {
	cfg, err := v.cfg.driver()
	if err != nil {
		return nil, err
	}
	proxy, err := mysqlproxy.New(cfg.Addr)
	if err != nil {
		return nil, err
	}
	a := &actor{v: v, name: name, proxy: proxy, died: make(chan struct{})}
	if a.db, err = v.cfg.open(a.dial); err != nil {
		proxy.Close()
		return nil, err
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a, nil
}

func (a *actor) dial(ctx context.Context) (net.Conn, error) {
	if a.dead.Load() {
		return nil, errDead
	}
	return new(net.Dialer).DialContext(ctx, "tcp", a.proxy.Addr())
}

// die breaks all its connections for ever and lets it do nothing more.
func (a *actor) die() {
	a.death.Do(func() {
		a.dead.Store(true)
		a.proxy.Sever()
		a.cancel()
		close(a.died)
	})
}

// dieAfter lets it die when a fault of its proxy has happened, and reports it then.
func (a *actor) dieAfter(happened <-chan struct{}, report func()) {
	a.running.Go(func() {
		select {
		case <-happened:
			report()
			a.die()
		case <-a.ctx.Done():
		}
	})
}

// stop ends it in an orderly way, as far as it is alive. It may be called again.
func (a *actor) stop() {
	a.end.Do(func() {
		a.cancel()
		a.running.Wait()
		a.v.checkPool(a.name, a.db)
		_ = a.db.Close()
		a.proxy.Close()
	})
}

// pollInterval is between two looks at the database.
const pollInterval = 20 * time.Millisecond

// await waits until cond holds, and reports false when patience, or ctx, has ended first.
func (v *verification) await(ctx context.Context, cond func() bool) bool {
	return awaitFor(ctx, v.cfg.Patience, cond)
}

func awaitFor(ctx context.Context, patience time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if cond() {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
