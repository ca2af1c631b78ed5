package natsjs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func TestStreamNotes(t *testing.T) {
	t.Parallel()
	good := jetstream.StreamConfig{Replicas: 3, MaxMsgSize: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1}
	for want, change := range map[string]func(*jetstream.StreamConfig){
		"":                                         func(*jetstream.StreamConfig) {},
		"retention interest":                       func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"retention workqueue":                      func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"max_age 1h0m0s":                           func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs 5 and discard old":               func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 },
		"max_bytes 5 and discard old":              func(c *jetstream.StreamConfig) { c.MaxBytes = 5 },
		"max_msgs_per_subject 5":                   func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"max_msgs_per_subject 5: the":              func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.Discard = 5, jetstream.DiscardNew },
		"consumer limit inactive_threshold 1h0m0s": func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = time.Hour },
		"storage memory":                           func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"replicas 1: a confirm":                    func(c *jetstream.StreamConfig) { c.Replicas = 1 },
		"max_msg_size 5: a larger event":           func(c *jetstream.StreamConfig) { c.MaxMsgSize = 5 },
	} {
		c := good
		change(&c)
		notes := streamNotes(c)
		if want == "" && len(notes) > 0 || want != "" && (len(notes) != 1 || !strings.HasPrefix(notes[0], want)) {
			t.Errorf("%q: %q", want, notes)
		}
	}
	full := good
	full.MaxMsgs, full.MaxBytes, full.Discard = 5, 5, jetstream.DiscardNew
	if notes := streamNotes(full); len(notes) != 0 {
		t.Errorf("a stream that refuses new messages: %q", notes)
	}
}

func TestStreamThatCanNotBePublishedTo(t *testing.T) {
	t.Parallel()
	for want, have := range map[string]jetstream.StreamConfig{
		"mirror": {Mirror: &jetstream.StreamSource{Name: "X"}}, "sealed": {Sealed: true},
	} {
		var d differences
		new(ensuring).compareStream(&d, streamNeed{}, have)
		if len(d.all) != 1 || d.all[0].Setting != want {
			t.Errorf("%s: %v", want, d.all)
		}
	}
}

func TestMoreReplicasThanWanted(t *testing.T) {
	t.Parallel()
	var d differences
	(&ensuring{cfg: EnsureConfig{Replicas: 2}}).compareStream(&d, streamNeed{}, jetstream.StreamConfig{Replicas: 3})
	if len(d.all) != 0 {
		t.Errorf("%v", d.all)
	}
}

// A stream that is made takes all of a first token, unless it would take another one's.
func TestSubjectsOfNewStreams(t *testing.T) {
	t.Parallel()
	all, err := streamsOf(outbox.Topology{Events: []outbox.EventTopology{
		{Type: "1", Stream: "A", Key: "orders.a"}, {Type: "2", Stream: "A", Key: "orders.b"},
		{Type: "3", Stream: "A", Key: "shared.a"}, {Type: "4", Stream: "B", Key: "shared.b"},
		{Type: "5", Stream: "B", Key: "plain"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(all)
	want := "[{A [orders.a orders.b shared.a] [orders.> shared.a]} {B [plain shared.b] [plain shared.b]}]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for pattern, subjects := range map[string]map[string]bool{
		"a":     {"a": true, "b": false, "a.b": false, "": false},
		"a.b":   {"a.b": true, "a": false, "a.b.c": false, "a.c": false},
		"a.*":   {"a.b": true, "a": false, "a.b.c": false, "b.b": false},
		"*.b":   {"a.b": true, "a.c": false, "b": false},
		"a.*.c": {"a.b.c": true, "a.b.d": false, "a.b": false},
		"a.>":   {"a.b": true, "a.b.c": true, "a": false, "b.c": false},
		">":     {"a": true, "a.b": true},
	} {
		for subject, want := range subjects {
			if got := covers(pattern, subject); got != want {
				t.Errorf("%q covers %q: %v", pattern, subject, got)
			}
		}
	}
}
