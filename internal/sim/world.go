package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/sim/fakemysql"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest"
)

const tenant = 7

// world is a run in its bubble.
type world struct {
	plan     Plan
	explorer *explorer // nil when the plan decides
	variant  variant
	server   *fakemysql.Server
	broker   *outboxtest.Broker
	log      *slog.Logger
	rec      recorder
	begin    time.Time

	ctx     context.Context
	end     context.CancelFunc
	healed  chan struct{} // closed when faults are over
	running sync.WaitGroup

	mu     sync.Mutex
	passed map[string]int // points and requests, by role and name
	actors []*actor
	ids    map[uuid.UUID]int // the requests' indexes, by event id
	slots  map[int]bool      // requests whose slot is taken
	trace  uint64
	steps  []string
}

// Result is a run's.
type Result struct {
	Plan      Plan
	History   history.History
	Verdicts  []history.Verdict
	Broken    []string      // what must not happen in any run, beside the invariants
	Trace     uint64        // the same for runs that took the same course
	Steps     []string      // of a plan with Tell
	Simulated time.Duration // how long the run took by the bubble's clock
	Deadlocks int
	LockWaits int
}

// Failed reports whether something was wrong.
func (r Result) Failed() bool { return len(history.Failed(r.Verdicts))+len(r.Broken) > 0 }

// Install sets the hook of the runtime's points for runs, until restore is called.
func Install() (restore func()) {
	steady := fault.Steady()
	hook := fault.Set(func(ctx context.Context, p fault.Point) error {
		if a, ok := ctx.Value(actorKey{}).(*actor); ok {
			return a.at(ctx, p)
		}
		return nil
	})
	return func() { hook(); steady() }
}

// Run runs a plan in a bubble of its own. [Install] must have been called.
func Run(t *testing.T, p Plan) (out Result) {
	defer func() {
		if v := recover(); v != nil { // as of goroutines that never end
			panic(fmt.Sprintf("the plan of seed %d: %v", p.Seed, v))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		w.run()
		out = w.result()
	})
	return out
}

func newWorld(t *testing.T, p Plan) *world {
	w := &world{
		plan: p, variant: lanes, begin: time.Now(),
		healed: make(chan struct{}),
		passed: map[string]int{}, ids: map[uuid.UUID]int{}, slots: map[int]bool{},
	}
	if p.Rows {
		w.variant = unordered
	}
	w.rec.w = w
	w.rec.init()
	w.log = slog.New(&canaryHandler{w: w})
	w.ctx, w.end = context.WithCancel(context.Background())
	w.server = fakemysql.New(fakemysql.Config{
		MariaDB: p.MariaDB, ReadTimeout: readWait, LockWait: time.Second,
		Latency: w.latency, Wire: w.wire, OnCommit: w.rec.changed, OnReply: w.replied,
	})
	if err := w.server.Apply(append(w.variant.schema[:len(w.variant.schema):len(w.variant.schema)], ownSchema...)...); err != nil {
		t.Fatal(err)
	}
	w.broker = outboxtest.NewBroker(outboxtest.BrokerConfig{
		RedeliveryDelay: 200 * time.Millisecond, AckWait: 5 * time.Second, Latency: w.deliveryLatency, Logger: w.log,
	})
	w.broker.OnPublish(w.onPublish)
	w.broker.OnAck(w.rec.acked)
	for i := range p.Requests {
		w.ids[eventID(i)] = i
		if p.Requests[i].Fate == Slotted {
			w.slots[i] = true
		}
	}
	return w
}

// eventID is the id of a request's event: a UUIDv7 that depends on nothing else.
func eventID(request int) uuid.UUID {
	var id uuid.UUID
	id[4], id[5] = byte(request>>8), byte(request)
	id[6], id[8], id[15] = 0x70, 0x80, byte(request)
	return id
}

func (w *world) addActor(a *actor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.actors = append(w.actors, a)
}

func (w *world) all() []*actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.actors[:len(w.actors):len(w.actors)]
}

// current is the living actor of a role, or nil.
func (w *world) current(role string) *actor {
	for _, a := range w.all() {
		select {
		case <-a.ended:
		default:
			if a.role == role && !a.isDead() {
				return a
			}
		}
	}
	return nil
}

func (w *world) run() {
	for i, role := range writerRoles {
		journal := newJournal(w, i)
		w.supervise(role, journal.run)
	}
	for _, role := range relayRoles[:w.plan.Relays] {
		w.supervise(role, w.runRelay)
	}
	for _, role := range consumersOf(w.plan.Rows) {
		w.supervise(role, w.runConsumer)
	}
	w.running.Go(w.lookUp)
	for _, f := range w.plan.Faults {
		if f.Point == "" && f.Op == "" {
			w.running.Go(func() { w.atTime(f) })
		}
	}
	time.Sleep(faultTime)
	w.heal()
	w.drain()
	w.rec.final()
	w.close()
}

// heal ends everything that is broken.
func (w *world) heal() {
	close(w.healed)
	w.mu.Lock()
	clear(w.slots)
	w.mu.Unlock()
	w.server.Start()
	w.server.SetReadOnly(false)
	w.server.Heal()
	w.broker.Start()
	w.broker.Resume()
	w.broker.Deliver(1)
	w.broker.LoseAcks(0)
}

// drain waits until all is published and handled. What isn't published at the deadline
// is late; consumers have more time, for they may be pausing.
func (w *world) drain() {
	limit := deadline
	for _, f := range w.plan.Faults {
		if f.Action == Back || f.Action == Forward { // leases, and backoffs, last so much longer
			limit += f.For
		}
	}
	w.rec.history.Deadline = limit
	for begin := time.Now(); ; {
		time.Sleep(250 * time.Millisecond)
		settled := w.written() && w.published()
		if settled && w.handled() {
			return
		}
		if took := time.Since(begin); took > limit && !settled || took > 2*time.Minute {
			return
		}
	}
}

// written reports whether the writers have come to their ends.
func (w *world) written() bool {
	for _, role := range writerRoles {
		if w.current(role) != nil {
			return false
		}
	}
	return true
}

func (w *world) published() bool {
	for _, r := range w.server.Rows("outbox_event") {
		if r.Int("status") == 0 {
			return false
		}
	}
	return true
}

func (w *world) handled() bool {
	for _, name := range w.variant.names {
		if w.broker.Unacked(name) > 0 {
			return false
		}
	}
	return true
}

// close ends all processes and counts what is left.
func (w *world) close() {
	w.end()
	w.broker.Close()
	w.running.Wait()
	for _, a := range w.all() {
		a.stop()
		_ = a.db.Close()
	}
	time.Sleep(2 * time.Minute) // what was lost silently is closed by now
	connections, transactions := w.server.Open()
	w.rec.history.Leaks = &history.Leaks{Connections: connections, Transactions: transactions}
}

func (w *world) result() Result {
	h := w.rec.history
	return Result{
		Plan: w.plan, History: h, Verdicts: history.Check(h), Broken: w.rec.wrong, Trace: w.trace, Steps: w.steps, Simulated: time.Since(w.begin),
		Deadlocks: w.server.Deadlocks, LockWaits: w.server.LockWaits,
	}
}

// mix is a number that depends on the seed and on what is given, and on nothing else.
func (w *world) mix(n uint64, texts ...string) uint64 {
	x := w.plan.Seed*0x9e3779b97f4a7c15 + n
	for _, t := range texts {
		for i := range len(t) { // FNV-1a
			x = (x ^ uint64(t[i])) * 0x100000001b3
		}
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// note adds something that happened to the trace, in which the order of what happens at the same
// moment doesn't count.
func (w *world) note(texts ...string) {
	w.trace += w.mix(uint64(time.Since(w.begin)), texts...)
	if w.plan.Tell {
		w.steps = append(w.steps, fmt.Sprintf("%15d %s", time.Since(w.begin), strings.Join(texts, " ")))
	}
}

// latency is of the way there or back. To connect takes none: whether a connection is
// free at the moment at which one is given back is a matter of chance.
func (w *world) latency(op fakemysql.Op) time.Duration {
	if op.Client == nobody || op.Name == "CONNECT" {
		return 0
	}
	if w.explorer != nil { // what begins at once is still one after the other
		return time.Duration(slices.Index(relayRoles, op.Client)) * time.Microsecond
	}
	way := "to"
	if op.Reply {
		way = "from"
	}
	w.mu.Lock()
	w.note(op.Client, op.Name, way)
	w.mu.Unlock()
	return w.delay(op.Client, op.Name, op.Tag, way)
}

// deliveryLatency is of the way from the broker to a consumer.
func (w *world) deliveryLatency(ctx context.Context) time.Duration {
	return w.delay(ctx.Value(actorKey{}).(*actor).role, "delivery")
}

// replied is told of all replies.
func (w *world) replied(op fakemysql.Op, args []string, rows [][]string, affected int64, err error) {
	if w.explorer != nil {
		w.explorer.replied(op, args, rows, affected, err)
	}
}

// delay is how long something takes. Of things that begin at the same moment no two take
// the same, so that their order depends on nothing but the plan.
func (w *world) delay(what ...string) time.Duration {
	if w.explorer != nil {
		return 0
	}
	return 100*time.Microsecond + time.Duration(w.mix(uint64(time.Since(w.begin)), what...)%uint64(w.plan.Latency/2))
}

// restartDelay is how long a role stays without a process.
func (w *world) restartDelay(role string) time.Duration {
	return 500*time.Millisecond + time.Duration(w.mix(uint64(time.Since(w.begin)), "restart", role)%uint64(3*time.Second))
}

// nobody is a client without latency and faults.
const nobody = "nobody"

// triggered counts a passing, and returns the fault that happens there.
func (w *world) triggered(role, place string, here func(Fault) bool) (Fault, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.healed:
		return Fault{}, false
	default:
	}
	key := role + " " + place
	w.passed[key]++
	if place != "CONNECT" {
		w.note(role, place)
	}
	for _, f := range w.plan.Faults {
		if here(f) && f.Role == role && f.Nth == w.passed[key] {
			w.rec.fault(f)
			return f, true
		}
	}
	return Fault{}, false
}

// wire decides what happens to a request to the database.
func (w *world) wire(op fakemysql.Op) (out fakemysql.Wire) {
	if op.Client == nobody {
		return out
	}
	f, ok := w.triggered(op.Client, op.Name, func(f Fault) bool { return f.Op == op.Name })
	if !ok {
		return out
	}
	switch f.Action {
	case CutRequest, SilentRequest:
		out.CutRequest = true
	case CutReply, SilentReply:
		out.CutReply = true
	case Late:
		out.Late = f.For
	case Deadlock:
		out.Err = &mysql.MySQLError{Number: 1213, Message: "Deadlock found when trying to get lock; try restarting transaction"}
	case LockTimeout:
		out.Err = &mysql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"}
	case Changed:
		out.Err = &mysql.MySQLError{Number: 1020, Message: "Record has changed since last read in table 'orders'"}
	case OtherKey:
		out.Err = &mysql.MySQLError{Number: 1062, Message: "Duplicate entry 'uq_consumed_event_identity' for key 'consumed_event.PRIMARY'"}
	case BadData:
		out.Err = &mysql.MySQLError{Number: 1366, Message: "Incorrect string value: 'uq_consumed_event_identity' for column 'event_id' at row 1"}
	}
	out.Silent = f.Action == SilentRequest || f.Action == SilentReply
	return out
}

// atTime is a fault of a time.
func (w *world) atTime(f Fault) {
	time.Sleep(f.At)
	w.mu.Lock()
	w.rec.fault(f)
	w.mu.Unlock()
	lasts := func() {
		timer := time.NewTimer(f.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.healed:
		}
	}
	switch f.Action {
	case Restart:
		w.server.Stop()
		lasts()
		w.server.Start()
	case ReadOnly:
		w.server.SetReadOnly(true)
		lasts()
		w.server.SetReadOnly(false)
	case Forward:
		w.server.Jump(f.For)
	case Back:
		w.server.Jump(-f.For)
	case BrokerDown:
		w.broker.Stop()
		lasts()
		w.broker.Start()
	case Unanswered:
		w.broker.Pause()
		lasts()
		w.broker.Resume()
	case LoseAcks:
		w.broker.LoseAcks(2)
	case Twice:
		w.broker.Deliver(2)
		lasts()
		w.broker.Deliver(1)
	case Redeliver:
		if stored := w.broker.Published(); len(stored) > 0 {
			w.broker.Redeliver(stored[int(f.For)%len(stored)].ID)
		}
	case Terminate:
		if a := w.current(f.Role); a != nil {
			a.stop()
		}
	case Pause:
		if a := w.current(f.Role); a != nil {
			a.freeze(f.For)
		}
	default:
		panic(fmt.Sprintf("no such fault: %v", f))
	}
}

var errRefused = fmt.Errorf("refused")

// onPublish is the broker's answer to what it won't take.
func (w *world) onPublish(e outbox.Envelope) error {
	switch fate := w.fate(e.ID); {
	case fate == Rejected:
		return outbox.PublishRejected(errRefused)
	case fate == Poisoned && !w.isHealed():
		return outbox.PublishFailed(errRefused)
	}
	return nil
}

func (w *world) fate(id uuid.UUID) Fate {
	if i, ok := w.ids[id]; ok {
		return w.plan.Requests[i].Fate
	}
	return Ordinary
}

func (w *world) isHealed() bool {
	select {
	case <-w.healed:
		return true
	default:
		return false
	}
}
