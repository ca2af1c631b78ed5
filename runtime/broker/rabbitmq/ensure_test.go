package rabbitmq

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
	"github.com/outboxgen/outboxgen/runtime/outboxtest/brokersuite"
)

// fresh is a rig's topology of which nothing is there.
func (r *rig) fresh() outbox.Topology {
	name := r.name + "e"
	t := outbox.Topology{
		Events: []outbox.EventTopology{{Type: "a", Exchange: name, Key: "k.a"}, {Type: "b", Exchange: name, Key: "k.b"}, {Type: "c", Exchange: name, Key: "k.c"}},
		Consumers: []outbox.ConsumerTopology{
			{Name: "one", Queue: name + ".one", Events: []string{"a", "b"}},
			{Name: "two", Queue: name + ".two", Events: []string{"b"}},
		},
	}
	r.t.Cleanup(func() { r.remove(t) })
	return t
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topology := r.fresh()
	cfg := EnsureConfig{RetryDelays: retryDelays()}

	report, err := Ensure(t.Context(), r.connector(), topology, cfg)
	wantIs(t, err, ErrMismatch)
	if len(report.Created) != 0 || len(report.Unverified) != 3 || !slices.Equal(report.Unhandled, []string{"c"}) {
		t.Errorf("without Create: %+v", report)
	}
	for _, what := range []string{"exchange " + topology.Events[0].Exchange, "queue " + topology.Consumers[0].Queue, retryQueue(topology.Consumers[1].Queue, retryDelays()[1])} {
		if err == nil || !strings.Contains(err.Error(), what+": have none, want one") {
			t.Errorf("%v\nlacks %s", err, what)
		}
	}
	cfg.Create = true
	report, err = Ensure(t.Context(), r.connector(), topology, cfg)
	if err != nil || len(report.Created) != 7 || len(report.Unverified) != 0 { // an exchange, two queues, two to wait in for each
		t.Fatalf("with Create: %+v, %v", report, err)
	}
	// What waits for the exchange must not find it without its queues.
	if last := report.Created[len(report.Created)-1]; last != "exchange "+topology.Events[0].Exchange {
		t.Errorf("made in the order %q, want the exchange last", report.Created)
	}
	for _, create := range []bool{true, false} {
		cfg.Create = create
		report, err = Ensure(t.Context(), r.connector(), topology, cfg)
		if err != nil || len(report.Created) != 0 {
			t.Errorf("again, Create %v: %+v, %v", create, report, err)
		}
	}

	// The bindings are there: an event reaches those who want it, and them alone.
	p, err := NewPublisher(r.connector(), PublisherConfig{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e := brokersuite.Event("a", 1)
	e.Type = "a"
	if err := publishOne(t, p, e); err != nil {
		t.Fatal(err)
	}
	if one, two := r.held(topology.Consumers[0].Queue), r.held(topology.Consumers[1].Queue); one != 1 || two != 0 {
		t.Errorf("the queues hold %d and %d, want 1 and 0", one, two)
	}
}

// What is there is never changed, and all differences are told at once.
func TestEnsureReportsDifferences(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topology := r.fresh()
	one, two := topology.Consumers[0].Queue, topology.Consumers[1].Queue
	channel := r.channel()
	if err := channel.ExchangeDeclare(topology.Events[0].Exchange, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]amqp.Table{
		one: nil,
		two: {"x-queue-type": "quorum", "x-max-length": 5},
		retryQueue(two, retryDelays()[1]): {
			"x-queue-type": "quorum", "x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": two,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		},
	} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	for _, create := range []bool{true, false} {
		_, err := Ensure(t.Context(), r.connector(), topology, EnsureConfig{Create: create, RetryDelays: retryDelays()})
		wantIs(t, err, ErrMismatch)
		if err == nil {
			continue
		}
		for _, words := range [][]string{
			{"exchange " + topology.Events[0].Exchange + ":", "'type'", "'topic'", "'fanout'"},
			{"queue " + one + ":", "x-queue-type", "quorum"},
			{"queue " + two + ":", "x-max-length", "current is the value '5'"},
			{"queue " + retryQueue(two, retryDelays()[1]) + ":", "x-message-ttl", "'500'", "'5'"},
		} {
			if !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool {
				return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
			}) {
				t.Errorf("no line with %q in\n%v", words, err)
			}
		}
	}
}

func TestEnsureSingleActiveConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topology := r.fresh()
	cfg := EnsureConfig{Create: true, RetryDelays: retryDelays(), SingleActiveConsumer: true}
	if _, err := Ensure(t.Context(), r.connector(), topology, cfg); err != nil {
		t.Fatal(err)
	}
	cfg.SingleActiveConsumer = false
	_, err := Ensure(t.Context(), r.connector(), topology, cfg)
	wantIs(t, err, ErrMismatch)
	if err == nil || !strings.Contains(err.Error(), "x-single-active-consumer") {
		t.Errorf("%v", err)
	}
}

func TestEnsureSettings(t *testing.T) {
	t.Parallel()
	c := Connector{URLs: []string{"amqp://127.0.0.1:1/"}}
	event := []outbox.EventTopology{{Type: "a", Exchange: "x", Key: "a"}}
	for name, s := range map[string]struct {
		topology outbox.Topology
		cfg      EnsureConfig
	}{
		"no queue":      {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{{Name: "c", Events: []string{"a"}}}}, EnsureConfig{}},
		"long queue":    {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{{Name: "c", Queue: strings.Repeat("q", 250), Events: []string{"a"}}}}, EnsureConfig{}},
		"server's name": {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{{Name: "c", Queue: "amq.q", Events: []string{"a"}}}}, EnsureConfig{}},
		"unknown event": {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{{Name: "c", Queue: "q", Events: []string{"b"}}}}, EnsureConfig{}},
		"shared queue": {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{
			{Name: "c", Queue: "q", Events: []string{"a"}}, {Name: "d", Queue: "q", Events: []string{"a"}},
		}}, EnsureConfig{}},
		"retry queue read": {outbox.Topology{Events: event, Consumers: []outbox.ConsumerTopology{
			{Name: "c", Queue: "q.retry.1s", Events: []string{"a"}}, {Name: "d", Queue: "q", Events: []string{"a"}},
		}}, EnsureConfig{}},
		"no place":   {outbox.Topology{Events: []outbox.EventTopology{{Type: "a"}}}, EnsureConfig{}},
		"bad delays": {outbox.Topology{Events: event}, EnsureConfig{RetryDelays: []time.Duration{-1}}},
	} {
		_, err := Ensure(t.Context(), c, s.topology, s.cfg)
		if err == nil || strings.Contains(err.Error(), "connect") {
			t.Errorf("%s: %v, want it refused before a connection", name, err)
		}
	}
}

// An argument that one version needs makes the other one drop messages.
func TestDeliveryLimit(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.10.8": false, "3.13.7": false, "4.0.5": true, "4.3.0": true, "10.0": true, "": false} {
		if _, got := queueArgs(version, EnsureConfig{})["x-delivery-limit"]; got != want {
			t.Errorf("RabbitMQ %s: x-delivery-limit %v", version, got)
		}
	}
	if _, set := queueArgs("4.0.5", EnsureConfig{DeliveryLimitByPolicy: true})["x-delivery-limit"]; set {
		t.Error("x-delivery-limit is set, though a policy is to set it")
	}
}

func TestOldestVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.9.29": false, "3.10.0": true, "3.13.7": true, "4.0.5": true, "2.8": false, "": true, "custom": true} {
		if got := checkVersion(version) == nil; got != want {
			t.Errorf("RabbitMQ %q: %v, want %v", version, got, want)
		}
	}
}
