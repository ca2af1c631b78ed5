package main

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// message is what the broker gets of an event.
type message struct {
	ID        uuid.UUID
	Aggregate string
	Version   int64
}

// arrival is a message in the broker's log.
type arrival struct {
	message
	answer answer
	at     time.Time
}

// broker is an HTTP server that outlives the relays and logs what arrives, in the
// order of arrival.
type broker struct {
	script *script
	server *http.Server
	url    string

	mu    sync.Mutex
	log   []arrival
	traps map[int]chan func() // by relay
}

func startBroker(s *script) (*broker, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &broker{script: s, url: "http://" + listener.Addr().String(), traps: map[int]chan func(){}}
	b.server = &http.Server{Handler: http.HandlerFunc(b.serve)}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

func (b *broker) close() { _ = b.server.Close() }

// serve takes the messages of one request: of different aggregates, as the
// publisher sends them.
func (b *broker) serve(w http.ResponseWriter, r *http.Request) {
	var messages []message
	if err := json.NewDecoder(r.Body).Decode(&messages); err != nil { // its sender was killed
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answers := make([]answer, len(messages))
	b.mu.Lock()
	now := time.Now()
	for i, m := range messages {
		answers[i] = b.script.answer(m.ID)
		b.log = append(b.log, arrival{m, answers[i], now})
	}
	relay, _ := strconv.Atoi(r.URL.Query().Get("relay"))
	trap := b.traps[relay]
	delete(b.traps, relay)
	b.mu.Unlock()
	if trap != nil {
		(<-trap)()
	}
	_ = json.NewEncoder(w).Encode(answers)
}

// trap calls fn when the relay's next messages are in the log, before they are
// answered, and waits for that; not ok when none came in time.
func (b *broker) trap(relay int, within time.Duration, fn func()) (ok bool) {
	c := make(chan func())
	b.mu.Lock()
	b.traps[relay] = c
	b.mu.Unlock()
	done := make(chan struct{})
	call := func() { defer close(done); fn() }
	select {
	case c <- call:
	case <-time.After(within):
		b.mu.Lock()
		_, waiting := b.traps[relay]
		delete(b.traps, relay)
		b.mu.Unlock()
		if waiting {
			return false
		}
		c <- call // a request came just now, and waits
	}
	<-done
	return true
}

// arrivals returns the log so far.
func (b *broker) arrivals() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]arrival(nil), b.log...)
}
