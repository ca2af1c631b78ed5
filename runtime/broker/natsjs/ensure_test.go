package natsjs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// emptyServer has no stream.
func emptyServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	return connect(t, natsserver.StartT(t, natsserver.Config{}).URL())
}

// lines are the differences, one a line.
func lines(t *testing.T, err error) (all []string) {
	t.Helper()
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("%v, want a MismatchError", err)
	}
	for _, d := range mismatch.Differences {
		all = append(all, d.String())
	}
	return all
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	js, topology := emptyServer(t), twoStreams()
	durable := DurableName("orders.projector")

	_, err := Ensure(t.Context(), js, topology, EnsureConfig{})
	want := []string{
		"stream BILLING: existence: have none, want a stream with subjects [billing.>]",
		"stream ORDERS: existence: have none, want a stream with subjects [orders.>]",
	}
	if diff := cmp.Diff(want, lines(t, err)); diff != "" {
		t.Errorf("nothing is there (-want +got):\n%s", diff)
	}
	if names := streamNames(t, js); len(names) != 0 {
		t.Errorf("streams %v were created without being asked for", names)
	}

	cfg := EnsureConfig{Create: true, Duplicates: time.Minute, MaxAge: time.Hour, AckWait: 7 * time.Second, MaxAckPending: 9}
	report, err := Ensure(t.Context(), js, topology, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want = []string{
		"stream BILLING", "stream ORDERS",
		"consumer " + durable + " of stream BILLING", "consumer " + durable + " of stream ORDERS",
	}
	if diff := cmp.Diff(want, report.Created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	have := s.CachedInfo().Config
	if have.Discard != jetstream.DiscardNew || have.Storage != jetstream.FileStorage || have.Retention != jetstream.LimitsPolicy ||
		have.Duplicates != time.Minute || have.MaxAge != time.Hour || have.Replicas != 1 {
		t.Errorf("the stream has %+v", have)
	}
	c, err := s.Consumer(t.Context(), durable)
	if err != nil {
		t.Fatal(err)
	}
	if have := c.CachedInfo().Config; have.AckWait != 7*time.Second || have.MaxAckPending != 9 || have.MaxDeliver != -1 {
		t.Errorf("the consumer has %+v", have)
	}

	// All is there: nothing to say, and Subscribe agrees.
	report, err = Ensure(t.Context(), js, topology, cfg)
	if err != nil || len(report.Created) != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	nothing := funcHandler(func(context.Context, outbox.Envelope) error { return nil })
	go func() { done <- Subscribe(ctx, js, nothing, SubscribeConfig{Topology: topology}) }()
	waitUntil(t, "it reads", func() bool {
		c, err := js.Consumer(t.Context(), stream, durable)
		return err == nil && c.CachedInfo().NumWaiting > 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Subscribe: %v", err)
	}
}

// What is there and isn't right is told, all at once, and left as it is.
func TestEnsureOverwritesNothing(t *testing.T) {
	t.Parallel()
	js, topology := emptyServer(t), twoStreams()
	durable := DurableName("orders.projector")
	for _, cfg := range []jetstream.StreamConfig{
		{Name: stream, Subjects: []string{"orders.other", "orders.*.*"}, NoAck: true, Duplicates: time.Second},
		{Name: "BILLING", Subjects: []string{"billing.*"}, Duplicates: time.Minute},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateConsumer(t.Context(), "BILLING", jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckAllPolicy, MaxDeliver: 3, FilterSubject: "billing.refused",
	}); err != nil {
		t.Fatal(err)
	}
	before := everything(t, js, durable)
	report, err := Ensure(t.Context(), js, topology, EnsureConfig{Create: true, Replicas: 3, Duplicates: time.Minute})
	want := []string{
		"stream BILLING: replicas: have 1, want at least 3",
		"stream ORDERS: subjects: have [orders.other orders.*.*], want orders.accepted among them",
		"stream ORDERS: no_ack: have true, want false: a stream has to confirm",
		"stream ORDERS: replicas: have 1, want at least 3",
		"stream ORDERS: duplicate window: have 1s, want 1m0s",
		"consumer " + durable + " of stream BILLING: acknowledgement policy: have AckAll, want AckExplicit",
		"consumer " + durable + " of stream BILLING: filter subjects: have [billing.refused], want [billing.cancelled]",
		"consumer " + durable + " of stream BILLING: delivery limit: have 3, want none",
	}
	if diff := cmp.Diff(want, lines(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, everything(t, js, durable)); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
	if len(report.Created) != 1 { // the other consumer
		t.Errorf("created %v", report.Created)
	}
	if len(report.Notes) != 2 || !strings.Contains(report.Notes[0], "replicas 1") {
		t.Errorf("notes %v", report.Notes)
	}

	// A push consumer, and no consumer at all.
	if err := js.DeleteConsumer(t.Context(), "BILLING", durable); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreatePushConsumer(t.Context(), "BILLING", jetstream.ConsumerConfig{
		Durable: durable, DeliverSubject: "push", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "billing.cancelled",
	}); err != nil {
		t.Fatal(err)
	}
	topology.Consumers[0].Queue = ""
	topology.Consumers = append(topology.Consumers, outbox.ConsumerTopology{
		Name: "second", Queue: "orders.projector", Events: []string{topology.Events[1].Type},
	})
	_, err = Ensure(t.Context(), js, topology, EnsureConfig{})
	got := lines(t, err)
	for _, want := range []string{
		"consumer projector of stream ORDERS: existence: have none, want a durable pull consumer",
		"consumer " + durable + " of stream BILLING: kind: have push, want pull",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

func streamNames(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// everything is the configuration of the streams, and of the consumer in BILLING.
func everything(t *testing.T, js jetstream.JetStream, durable string) (all []string) {
	t.Helper()
	for _, name := range streamNames(t, js) {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%+v", s.CachedInfo().Config))
	}
	c, err := js.Consumer(t.Context(), "BILLING", durable)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, fmt.Sprintf("%+v", c.CachedInfo().Config))
}

func TestEnsureErrors(t *testing.T) {
	t.Parallel()
	js := emptyServer(t)
	for _, cfg := range []EnsureConfig{{Replicas: -1}, {MaxAge: -1}, {AckWait: -1}, {MaxAckPending: -1}} {
		if _, err := Ensure(t.Context(), js, twoStreams(), cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	// The server's no is an error, not a difference: three replicas need a cluster.
	_, err := Ensure(t.Context(), js, twoStreams(), EnsureConfig{Create: true, Replicas: 3})
	if err == nil || errors.As(err, new(*MismatchError)) || !strings.Contains(err.Error(), "stream BILLING") {
		t.Errorf("%v", err)
	}
	js.Conn().Close()
	if _, err := Ensure(t.Context(), js, twoStreams(), EnsureConfig{}); err == nil || errors.As(err, new(*MismatchError)) {
		t.Errorf("without a connection: %v", err)
	}
}

func TestStreamNotes(t *testing.T) {
	t.Parallel()
	good := jetstream.StreamConfig{Replicas: 3, MaxMsgSize: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1}
	for want, change := range map[string]func(*jetstream.StreamConfig){
		"":                               func(*jetstream.StreamConfig) {},
		"retention interest":             func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"retention workqueue":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"max_age 1h0m0s":                 func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs 5 and discard old":     func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 },
		"max_bytes 5 and discard old":    func(c *jetstream.StreamConfig) { c.MaxBytes = 5 },
		"max_msgs_per_subject 5":         func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"max_msgs_per_subject 5: the":    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.Discard = 5, jetstream.DiscardNew },
		"storage memory":                 func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"replicas 1: a confirm":          func(c *jetstream.StreamConfig) { c.Replicas = 1 },
		"max_msg_size 5: a larger event": func(c *jetstream.StreamConfig) { c.MaxMsgSize = 5 },
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
