package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// The tests share one server, since it takes seconds to start; each has exchanges and queues
// of its own. Those that kill the server or raise its alarm don't run in parallel with
// others.
var (
	sharedServer = sync.OnceValues(func() (*rabbitserver.Server, error) {
		return rabbitserver.Start(context.Background(), rabbitserver.Config{})
	})
	rigs atomic.Int64
)

func TestMain(m *testing.M) {
	code := m.Run()
	if s, err := sharedServer(); err == nil {
		s.Close()
	}
	os.Exit(code)
}

// The topology of a rig: the consumers of the suites, and one exchange.
var consumers = []string{"projector", "first", "sec.ond"}

// rig is the shared server with exchanges and queues of one test's own, and a proxy in
// front of it.
type rig struct {
	t        *testing.T
	server   *rabbitserver.Server
	proxy    *proxy
	name     string // prefix of everything
	topology outbox.Topology
	admin    *amqp.Connection
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	if !server.Private() {
		t.Fatalf("these tests ask the server what it holds: unset %s", rabbitserver.EnvVar)
	}
	r := &rig{t: t, server: server, proxy: startProxy(t, server.Addr()), name: fmt.Sprintf("t%d", rigs.Add(1))}
	r.topology = outbox.Topology{Service: brokersuite.Source}
	for _, typ := range []string{brokersuite.TypeA, brokersuite.TypeB, brokersuite.TypeOther} {
		r.topology.Events = append(r.topology.Events, outbox.EventTopology{Type: typ, Exchange: r.name, Key: typ})
	}
	for _, name := range consumers {
		r.topology.Consumers = append(r.topology.Consumers, outbox.ConsumerTopology{
			Name: name, Queue: r.queue(name), Events: []string{brokersuite.TypeA, brokersuite.TypeB},
		})
	}
	r.ensure(r.topology)
	t.Cleanup(func() { r.remove(r.topology) })
	// An event that no consumer wants has to have a queue all the same.
	r.declare("other", nil)
	r.bind("other", brokersuite.TypeOther)
	return r
}

// retryDelays of the tests, so that what failed comes back within milliseconds.
func retryDelays() []time.Duration {
	return []time.Duration{20 * time.Millisecond, 500 * time.Millisecond}
}

func (r *rig) queue(name string) string { return r.name + "." + name }

func (r *rig) connector() Connector {
	return Connector{URLs: []string{r.server.URL()}, WriteTimeout: 2 * time.Second}
}

// via connects through the proxy.
func (r *rig) via() Connector {
	c := r.connector()
	c.URLs = []string{strings.ReplaceAll(r.server.URL(), r.server.Addr(), r.proxy.addr())}
	return c
}

func (r *rig) ensure(t outbox.Topology) {
	r.t.Helper()
	if _, err := Ensure(r.t.Context(), r.connector(), t, EnsureConfig{Create: true, RetryDelays: retryDelays()}); err != nil {
		r.t.Fatal(err)
	}
}

// remove deletes the topology's queues: a server with many quorum queues gets slow.
func (r *rig) remove(t outbox.Topology) {
	var queues []string
	for _, c := range t.Consumers {
		queues = append(queues, c.Queue)
		for _, d := range retryDelays() {
			queues = append(queues, retryQueue(c.Queue, d))
		}
	}
	r.settle(queues)
	for _, queue := range queues {
		r.delete(queue)
	}
}

// settle waits until queues have leaders and what dead-letters for them works. RabbitMQ 3.10
// declares no queue any more when one is deleted before that, as just after a restart: the
// supervisor of what dead-letters gives up.
func (r *rig) settle(queues []string) {
	// An error is of a server that the test has broken.
	_, _ = r.server.Eval(context.Background(), fmt.Sprintf(`[case rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, N)) of
		{ok, Q} -> ra:leader_query(amqqueue:get_pid(Q), fun(_) -> ok end);
		_ -> none
	end || N <- [<<"%s">>]],
	[catch sys:get_state(P) || {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup)],
	ok.`, strings.Join(queues, `">>, <<"`)))
}

// channel is a new one, on a connection that is kept for the test.
func (r *rig) channel() *amqp.Channel {
	r.t.Helper()
	var err error
	if r.admin == nil || r.admin.IsClosed() {
		if r.admin, err = amqp.Dial(r.server.URL()); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { r.admin.Close() })
	}
	channel, err := r.admin.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	return channel
}

// declare makes a classic queue of the test's own.
func (r *rig) declare(name string, args amqp.Table) {
	r.t.Helper()
	if _, err := r.channel().QueueDeclare(r.queue(name), true, false, false, false, args); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) bind(name, key string) {
	r.t.Helper()
	if err := r.channel().QueueBind(r.queue(name), key, r.name, false, nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) delete(queue string) {
	conn, err := amqp.Dial(r.server.URL())
	if err != nil {
		return // the server is what the test has broken
	}
	defer conn.Close()
	if channel, err := conn.Channel(); err == nil {
		_, _ = channel.QueueDelete(queue, false, false, false)
	}
}

func (r *rig) publisher(cfg PublisherConfig) *Publisher {
	r.t.Helper()
	if cfg.Exchange == "" && cfg.Route == nil {
		cfg.Topology = r.topology
	}
	defaultTo(&cfg.Backoff, 10*time.Millisecond)
	defaultTo(&cfg.MaxBackoff, 100*time.Millisecond)
	p, err := NewPublisher(r.via(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// put publishes a message as it is, where the consumers' events go.
func (r *rig) put(body []byte, headers map[string]string) {
	r.t.Helper()
	m := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body, Headers: make(amqp.Table)}
	for name, value := range headers {
		if name == "content-type" {
			m.ContentType = value
		} else {
			m.Headers[name] = value
		}
	}
	if err := r.channel().Publish(r.name, brokersuite.TypeA, true, false, m); err != nil {
		r.t.Fatal(err)
	}
}

// stored reads what a queue holds and leaves it there.
func (r *rig) stored(queue string) []outbox.Envelope {
	r.t.Helper()
	channel := r.channel()
	defer channel.Close() // gives everything back
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := channel.Qos(max(q.Messages, 1), 0, false); err != nil { // by default a quorum queue hands out 2,000
		r.t.Fatal(err)
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	all := make([]outbox.Envelope, q.Messages)
	for i := range all {
		if all[i], err = decode(receive(r.t, "the queue's messages", deliveries)); err != nil {
			r.t.Fatal(err)
		}
	}
	return all
}

// held asks the server how many messages a quorum queue holds, acknowledged by nobody; -1
// when it doesn't answer.
func (r *rig) held(queue string) int {
	return r.ask(queue, `{ok, {_, N}, _} = ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N.`)
}

// consumers asks the server how many read the queue, those included that wait for the single
// active one to end; -1 when it doesn't answer.
func (r *rig) consumers(queue string) int {
	return r.ask(queue, `length(rabbit_amqqueue:consumers(Q)).`)
}

func (r *rig) ask(queue, question string) int {
	text := fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), %s`, queue, question)
	out, err := r.server.Eval(r.t.Context(), text)
	if err != nil { // its control port gives up early on a busy machine
		out, err = r.server.Eval(r.t.Context(), text)
	}
	if err != nil {
		r.t.Logf("%s: %v", queue, err)
		return -1
	}
	n, err := strconv.Atoi(out)
	if err != nil {
		r.t.Fatalf("the server says %q", out)
	}
	return n
}

// unacked is what a consumer has not acknowledged, what waits to be delivered again
// included.
func (r *rig) unacked(consumer string) int {
	queue := r.queue(consumer)
	n := r.held(queue)
	for _, d := range retryDelays() {
		w := r.held(retryQueue(queue, d))
		if n < 0 || w < 0 {
			return -1
		}
		n += w
	}
	return n
}

// subscribeConfig repeats within milliseconds and says nothing.
func (r *rig) subscribeConfig() SubscribeConfig {
	return SubscribeConfig{
		Topology: r.topology, RetryDelays: retryDelays(), Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// subscribe runs Subscribe in the background until the test ends, or stop is called.
func (r *rig) subscribe(h outbox.Handler, cfg SubscribeConfig) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Subscribe(ctx, r.via(), h, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(r.t, "Subscribe returns when its context ends", done); err != nil {
			r.t.Errorf("Subscribe: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func publishOne(t *testing.T, p *Publisher, e outbox.Envelope) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return p.Publish(ctx, []outbox.Envelope{e})[0]
}

// eventsOf makes n events, each of an aggregate of its own.
func eventsOf(n int) []outbox.Envelope {
	all := make([]outbox.Envelope, n)
	for i := range all {
		all[i] = brokersuite.Event("order-"+strconv.Itoa(i), 1)
	}
	return all
}
