package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// minWait is the least wait after a failure. A message that is given back for none has not
// failed, and brokers count in milliseconds.
const minWait = time.Millisecond

// Config has an engine's settings. All but Slots, Hold, AliveEvery, Window and NoJitter are
// required.
type Config struct {
	Handler     outbox.Handler
	Concurrency int // handlers at a time

	// Slots, when set, limits the handlers of all engines that share it, in place of
	// Concurrency: as many at a time as it has room for.
	Slots chan struct{}

	// Window is how many messages may be in the engine's hands. Submit waits
	// for room. 0 for no limit, where the broker has one.
	Window int

	// Hold keeps failed messages here until they are due, for brokers that know no
	// delay.
	Hold bool

	// Backoff is the wait before a message is delivered again whose handler doesn't say,
	// doubled with each delivery up to MaxBackoff.
	Backoff, MaxBackoff time.Duration

	// NoJitter keeps Backoff as it is, where time is scripted. By default it varies
	// by a fifth either way.
	NoJitter bool

	// AliveEvery is how often Message.Alive is called of all messages in the
	// engine's hands. 0 for never.
	AliveEvery time.Duration

	Logger *slog.Logger
	Stats  *outbox.SubscribeStats
}

// Engine runs a handler. Make one with [New], end it with [Engine.Close].
type Engine struct {
	cfg     Config
	slots   chan struct{} // one token a running handler
	room    chan struct{} // one token a message in our hands; nil without a limit
	gate    gate
	guard   guard
	working sync.WaitGroup // lanes
	beating sync.WaitGroup // signs of life
	idle    chan struct{}  // closed when no lane works any more

	// Handlers outlive the subscription's context: their transactions should end
	// with a commit.
	ctx    context.Context //nolint:containedctx // of everything that the engine starts
	cancel context.CancelFunc
	stop   chan struct{} // closed: begin nothing more

	mu     sync.Mutex
	lanes  map[lane][]*held
	alive  map[*held]struct{}
	closed bool
}

// lane is an aggregate, or one unreadable message.
type lane struct {
	typ, id string
	message *held
}

// New makes an engine. ctx gives its values to handlers, not its end.
func New(ctx context.Context, cfg Config) *Engine {
	e := &Engine{
		cfg:   cfg,
		slots: cfg.Slots,
		stop:  make(chan struct{}),
		idle:  make(chan struct{}),
		lanes: make(map[lane][]*held),
		alive: make(map[*held]struct{}),
	}
	if e.slots == nil {
		e.slots = make(chan struct{}, max(cfg.Concurrency, 1))
	}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.gate.init(cfg.Logger, cfg.Stats)
	e.guard.init()
	if cfg.Window > 0 {
		e.room = make(chan struct{}, cfg.Window)
	}
	if cfg.AliveEvery > 0 {
		e.beating.Go(e.keepAlive)
	}
	return e
}

// Submit hands a message over, in the order of delivery. It waits while there is no
// room, and reports false when ctx ended first or the engine is closed; then the
// message is still the caller's.
func (e *Engine) Submit(ctx context.Context, m Message) bool {
	if e.room != nil {
		select {
		case e.room <- struct{}{}:
		case <-ctx.Done():
			return false
		case <-e.stop:
			return false
		}
	}
	h := &held{Message: m}
	key := lane{typ: m.Envelope.AggregateType, id: m.Envelope.AggregateID}
	if m.Unreadable != nil {
		key = lane{message: h}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.leaveRoom()
		return false
	}
	e.cfg.Stats.Delivered.Add(1)
	if m.Deliveries > 1 {
		e.cfg.Stats.Redelivered.Add(1)
	}
	e.alive[h] = struct{}{}
	queue, busy := e.lanes[key]
	e.lanes[key] = append(queue, h)
	if !busy {
		e.working.Go(func() { e.work(key) })
	}
	return true
}

// Close begins nothing more, waits for the running handlers, cancels their context
// after timeout, and gives everything else back: at once, or behind the earlier event
// of its aggregate that it was held back for.
func (e *Engine) Close(timeout time.Duration) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	close(e.stop)
	go func() {
		e.working.Wait()
		close(e.idle)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-e.idle:
	case <-timer.C:
		select {
		case <-e.idle:
		default:
			e.cfg.Logger.Warn("handlers are still running at the end of ShutdownTimeout; cancelling them")
			e.cancel()
			<-e.idle
		}
	}
	e.beating.Wait()
	e.cancel()
}

// work handles a lane's messages one after the other, until there are none.
func (e *Engine) work(key lane) {
	for {
		e.mu.Lock()
		queue := e.lanes[key]
		if len(queue) == 0 {
			delete(e.lanes, key)
			e.mu.Unlock()
			return
		}
		h := queue[0]
		queue[0] = nil
		e.lanes[key] = queue[1:]
		e.mu.Unlock()
		e.process(key, h)
		e.forget(h)
	}
}

func (e *Engine) forget(h *held) {
	e.mu.Lock()
	delete(e.alive, h)
	e.mu.Unlock()
	e.leaveRoom()
}

func (e *Engine) leaveRoom() {
	if e.room != nil {
		<-e.room
	}
}

// process takes a message to its end: acknowledged or given back.
func (e *Engine) process(key lane, h *held) {
	if !e.cfg.Hold {
		if wait, ok := e.guard.heldBack(key, h, e.gate.openSince()); ok {
			e.cfg.Stats.HeldBack.Add(1)
			e.again(h, wait)
			return
		}
	}
	for n := 1; ; n++ {
		handled, err := e.handle(h)
		if !handled {
			e.again(h, 0)
			return
		}
		if err == nil {
			e.cfg.Stats.Handled.Add(1)
			h.end(func() {
				_ = fault.At(e.ctx, fault.ConsumerCommitted)
				h.Ack(e.ctx)
				_ = fault.At(e.ctx, fault.ConsumerAcked)
			})
			return
		}
		e.cfg.Stats.Failed.Add(1)
		after := max(cmp.Or(outbox.RedeliveryOf(err).After, e.backoff(max(h.Deliveries, n))), minWait)
		e.log(h).Warn("the event was not handled", "error", err, "again_in", after.Round(time.Millisecond).String())
		if !e.cfg.Hold {
			e.again(h, after)
			e.guard.returned(key, h, after) // its redelivery waits in this lane
			return
		}
		if !e.wait(after) {
			e.again(h, 0)
			return
		}
	}
}

// handle calls the handler in its turn, and again while the database can't be worked
// with: it keeps its place among the running ones until others may try, too. It
// reports false when the engine was closed first.
func (e *Engine) handle(h *held) (handled bool, err error) {
	placed, paused := false, false
	defer func() {
		if placed {
			<-e.slots
		}
	}()
	for {
		if !placed {
			if placed = e.enter(); !placed {
				return false, nil
			}
		}
		try, ok := e.gate.pass(e.stop, paused)
		if !ok {
			return false, nil
		}
		if err = e.call(h); err == nil || !outbox.RedeliveryOf(err).Pause {
			e.gate.open(try)
			return true, err
		}
		paused = true
		if others := e.gate.close(err, try); others {
			<-e.slots
			placed = false
		}
	}
}

// enter takes a place among the running handlers. It reports false when the engine
// is closing.
func (e *Engine) enter() bool {
	select {
	case e.slots <- struct{}{}:
		return true
	case <-e.stop:
		return false
	}
}

// call runs the handler on a goroutine of its own, for the lane to outlive a runtime.Goexit.
func (e *Engine) call(h *held) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if !returned {
				p := outbox.NewPanicError(recover(), debug.Stack())
				e.cfg.Stats.Panics.Add(1)
				e.log(h).Error("the handler panicked", "error", p, "stack", string(p.Stack))
				err = p
			}
			ended <- err
		}()
		err = e.handOver(h)
		returned = true
	}()
	return <-ended
}

func (e *Engine) handOver(h *held) error {
	if h.Unreadable != nil {
		err := e.cfg.Handler.Park(e.ctx, *h.Unreadable)
		if err == nil {
			e.cfg.Stats.Unreadable.Add(1)
		}
		return err
	}
	ctx := e.ctx
	if h.repeated || h.Deliveries > 1 {
		ctx = outbox.ContextWithRedelivery(ctx)
	}
	h.repeated = true // the next time
	_, err := e.cfg.Handler.Handle(ctx, h.Envelope)
	return err
}

// wait reports whether the time passed before the engine was closed.
func (e *Engine) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.stop:
		return false
	}
}
