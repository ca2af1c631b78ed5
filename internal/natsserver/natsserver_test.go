package natsserver_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/natsserver"
)

func TestRestartKeepsPortAndStreams(t *testing.T) {
	dir := t.TempDir()
	s := natsserver.StartT(t, natsserver.Config{Dir: dir})
	url := s.URL()
	js := connect(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("the address was %s and is %s", url, s.URL())
	}
	stream, err := connect(t, url).Stream(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages after the restart, want 1", n)
	}
	s.Close()
	s.Close()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("Close removed a folder that it didn't make: %v", err)
	}
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
