package outbox_test

import (
	"testing"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestTopology(t *testing.T) {
	topology := outbox.Topology{
		Service:   "orders",
		Events:    []outbox.EventTopology{{Type: "a", Key: "orders.a"}, {Type: "b", Key: "orders.b"}},
		Consumers: []outbox.ConsumerTopology{{Name: "c", Queue: "q"}, {Name: "d", Queue: "r"}},
	}
	if e, ok := topology.Event("b"); !ok || e.Key != "orders.b" {
		t.Errorf("%+v, %v", e, ok)
	}
	if e, ok := topology.Event("c"); ok || e != (outbox.EventTopology{}) {
		t.Errorf("%+v, %v", e, ok)
	}
	if c, ok := topology.Consumer("d"); !ok || c.Queue != "r" {
		t.Errorf("%+v, %v", c, ok)
	}
	if c, ok := topology.Consumer("a"); ok || c.Name != "" {
		t.Errorf("%+v, %v", c, ok)
	}
}
