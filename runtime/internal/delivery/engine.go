package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Config has an engine's settings. All but Slots, Hold, AliveEvery and Window are required.
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

	// AliveEvery is how often Message.Alive is called of all messages in the
	// engine's hands. 0 for never.
	AliveEvery time.Duration

	Logger *slog.Logger
	Stats  *outbox.SubscribeStats
}

// Message is one delivery.
type Message struct {
	Envelope   outbox.Envelope
	Unreadable *outbox.Unreadable // set when there is no envelope
	Deliveries int                // 1 for the first one; 0 where the broker doesn't say

	// Attrs are its place at the broker, for the log.
	Attrs []any

	// Ack tells the broker that the message is done with. Called once, unless Again is.
	Ack func(ctx context.Context)

	// Again gives the message back, to be delivered after the wait, 0 for at once.
	// Called once, unless Ack is. With Hold it is called with 0 at the end only, and
	// may be nil.
	Again func(ctx context.Context, after time.Duration)

	// Alive tells the broker that the message is being worked on; may be nil. It
	// isn't called after Ack or Again.
	Alive func()
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

// held is a message in the engine's hands.
type held struct {
	Message
	mu   sync.Mutex
	done bool // Ack or Again was called
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
// room, and reports false when ctx has ended or the engine is closed; then the message
// is still the caller's.
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

// Close begins nothing more, waits for the running handlers, cancels them after
// timeout, and gives everything else back at once.
func (e *Engine) Close(timeout time.Duration) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	close(e.stop)
	timer := time.AfterFunc(timeout, func() {
		e.cfg.Logger.Warn("handlers are still running at the end of ShutdownTimeout; cancelling them")
		e.cancel()
	})
	defer timer.Stop()
	e.working.Wait()
	close(e.idle)
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
	if wait, ok := e.guard.heldBack(key, h); ok && !e.cfg.Hold {
		e.cfg.Stats.HeldBack.Add(1)
		e.again(h, wait)
		return
	}
	for n := 1; ; n++ {
		if !e.enter() {
			e.again(h, 0)
			return
		}
		err := e.call(h)
		<-e.slots
		if err == nil {
			e.gate.open()
			e.cfg.Stats.Handled.Add(1)
			e.guard.passed(key, h)
			h.end(func() { h.Ack(e.ctx) })
			return
		}
		r := outbox.RedeliveryOf(err)
		if r.Pause {
			e.gate.close(err)
			continue
		}
		e.gate.open()
		e.cfg.Stats.Failed.Add(1)
		after := cmp.Or(r.After, e.backoff(max(h.Deliveries, n)))
		e.log(h).Warn("the event was not handled", "error", err, "again_in", after.Round(time.Millisecond))
		if !e.cfg.Hold {
			e.guard.returned(key, h, after)
			e.again(h, after)
			return
		}
		if !e.wait(after) {
			e.again(h, 0)
			return
		}
	}
}

// enter takes a place among the running handlers, once the database can be worked
// with. It reports false when the engine is closing.
func (e *Engine) enter() bool {
	if !e.gate.pass(e.stop) {
		return false
	}
	select {
	case <-e.stop:
		return false
	default:
	}
	select {
	case e.slots <- struct{}{}:
		return true
	case <-e.stop:
		return false
	}
}

func (e *Engine) call(h *held) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := outbox.NewPanicError(v, debug.Stack())
			e.cfg.Stats.Panics.Add(1)
			e.log(h).Error("the handler panicked", "error", p, "stack", string(p.Stack))
			err = p
		}
	}()
	if h.Unreadable != nil {
		err := e.cfg.Handler.Park(e.ctx, *h.Unreadable)
		if err == nil {
			e.cfg.Stats.Unreadable.Add(1)
		}
		return err
	}
	_, err = e.cfg.Handler.Handle(e.ctx, h.Envelope)
	return err
}

func (e *Engine) again(h *held, after time.Duration) {
	h.end(func() {
		if h.Again != nil {
			h.Again(e.ctx, after)
		}
	})
}

// end calls f unless the message has ended, and lets no sign of life follow.
func (h *held) end(f func()) {
	h.mu.Lock()
	done := h.done
	h.done = true
	h.mu.Unlock()
	if !done {
		f()
	}
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

func (e *Engine) log(h *held) *slog.Logger {
	log := e.cfg.Logger.With(h.Attrs...)
	if h.Unreadable != nil {
		return log
	}
	return log.With("event_id", h.Envelope.ID, "event_type", h.Envelope.Type)
}

// keepAlive gives the signs of life until the last lane has ended.
func (e *Engine) keepAlive() {
	ticker := time.NewTicker(e.cfg.AliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			e.signs()
		case <-e.idle:
			return
		}
	}
}

func (e *Engine) signs() {
	e.mu.Lock()
	all := make([]*held, 0, len(e.alive))
	for h := range e.alive {
		all = append(all, h)
	}
	e.mu.Unlock()
	for _, h := range all {
		h.mu.Lock()
		if !h.done && h.Alive != nil {
			h.Alive()
		}
		h.mu.Unlock()
	}
}

// compareEvents orders events of one aggregate as their writer did: by version, those of
// one version by their ids, which grow with time.
func compareEvents(a, b outbox.Envelope) int {
	return cmp.Or(cmp.Compare(a.AggregateVersion, b.AggregateVersion), strings.Compare(a.ID.String(), b.ID.String()))
}
