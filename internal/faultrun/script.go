package main

import (
	"sync"

	"github.com/google/uuid"
)

// answer is what the broker says to a message. When it says lost it has taken the
// message, and the relay must not know.
type answer string

const (
	confirmed answer = "confirmed"
	rejected  answer = "rejected"
	failed    answer = "failed"
	lost      answer = "lost"
)

// accepts holds when the broker has the message.
func (a answer) accepts() bool { return a == confirmed || a == lost }

// fate is what the broker has in store for an event.
type fate int

const (
	fateConfirm fate = iota
	fateReject
	fateFailOnce
	fateFailTwice
	fateFailAlways
	fateLoseReply // of the first delivery
)

// maxAttempts is the relays' MaxAttempts: more than the failures of an event that
// is to be published in the end.
const maxAttempts = 3

// dies holds for an event that must be dead in the end.
func (f fate) dies() bool { return f == fateReject || f == fateFailAlways }

// fateOf chooses by the id, so that it is the same for every relay and every repeat.
func fateOf(id uuid.UUID) fate {
	switch n := int(id[14])<<8 | int(id[15]); n % 200 {
	case 0, 1:
		return fateReject
	case 2, 3, 4, 5:
		return fateFailOnce
	case 6, 7, 8:
		return fateFailTwice
	case 9:
		return fateFailAlways
	case 10, 11:
		return fateLoseReply
	default:
		return fateConfirm
	}
}

// alwaysConfirm is the fate of all events at a broker without trouble.
func alwaysConfirm(uuid.UUID) fate { return fateConfirm }

// script answers messages by the events' fates.
type script struct {
	fate func(uuid.UUID) fate

	mu    sync.Mutex
	tries map[uuid.UUID]int // of events that have another fate than to be confirmed
}

func newScript(fate func(uuid.UUID) fate) *script {
	return &script{fate: fate, tries: map[uuid.UUID]int{}}
}

func (s *script) answer(id uuid.UUID) answer {
	f := s.fate(id)
	if f == fateConfirm {
		return confirmed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[id]++
	try := s.tries[id]
	switch {
	case f == fateReject:
		return rejected
	case f == fateFailAlways, f == fateFailOnce && try <= 1, f == fateFailTwice && try <= 2:
		return failed
	case f == fateLoseReply && try == 1:
		return lost
	default:
		return confirmed
	}
}
