package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// faults kills relays and starts them again, ends some as a deploy does, so that
// their lanes are free at once, and stops others past their lease, until it is
// told to end.
type faults struct {
	fleet   *fleet
	ending  chan struct{}
	workers sync.WaitGroup

	mu       sync.Mutex
	kills    int
	restarts int
	stops    int
	err      error
}

const (
	stoppers      = 2 // relays that are stopped at a time, at most
	betweenFaults = 400 * time.Millisecond
)

func startFaults(f *fleet) *faults {
	out := &faults{fleet: f, ending: make(chan struct{})}
	out.workers.Go(func() { out.repeat(out.kill) })
	out.workers.Go(func() { out.repeat(out.restart) })
	for range stoppers {
		out.workers.Go(func() { out.repeat(out.stop) })
	}
	return out
}

// end returns when all relays run again.
func (f *faults) end() error {
	close(f.ending)
	f.workers.Wait()
	return f.err
}

func (f *faults) repeat(fault func(p *place, atMessage bool) error) {
	for n := 0; ; n++ {
		select {
		case <-f.ending:
			return
		case <-time.After(betweenFaults):
		}
		p := f.fleet.places[rand.IntN(len(f.fleet.places))]
		if !p.TryLock() {
			continue // something is done to it already
		}
		err := fault(p, n%2 == 0)
		p.Unlock()
		if err != nil {
			f.mu.Lock()
			f.err = errors.Join(f.err, err)
			f.mu.Unlock()
			return
		}
	}
}

// at calls fn at once, or when the broker has the relay's next message and has
// not answered it.
func (f *faults) at(p *place, atMessage bool, fn func()) {
	if !atMessage || !f.fleet.broker.trap(p.index, time.Second, fn) {
		fn()
	}
}

func (f *faults) kill(p *place, atMessage bool) error {
	f.at(p, atMessage, func() { _ = p.process.Kill() })
	p.kill()
	f.mu.Lock()
	f.kills++
	f.mu.Unlock()
	return f.fleet.start(p)
}

func (f *faults) restart(p *place, _ bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.fleet.restart(ctx, p); err != nil {
		return err
	}
	f.mu.Lock()
	f.restarts++
	f.mu.Unlock()
	return nil
}

// stop stops a relay until another one must have taken over.
func (f *faults) stop(p *place, atMessage bool) error {
	var err error
	f.at(p, atMessage, func() { err = stopProcess(p.process) })
	if err != nil {
		return err
	}
	time.Sleep(f.fleet.lease + f.fleet.lease/2)
	if err := continueProcess(p.process); err != nil {
		return err
	}
	f.mu.Lock()
	f.stops++
	f.mu.Unlock()
	return nil
}
