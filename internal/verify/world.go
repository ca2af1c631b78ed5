package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// world has the servers of a run.
type world struct {
	databases map[dbserver.Flavor]*dbserver.Server
	brokers   map[string]brokerServer
}

// startWorld starts what the plan needs.
func startWorld(ctx context.Context, plan []Experiment, say func(string)) (*world, error) {
	w := &world{databases: map[dbserver.Flavor]*dbserver.Server{}, brokers: map[string]brokerServer{}}
	databases, brokers := map[dbserver.Flavor]bool{}, map[string]bool{}
	for _, e := range plan {
		databases[e.Database], brokers[e.Broker] = true, true
	}
	var mu sync.Mutex
	var errs []error
	var starting sync.WaitGroup
	for f := range databases {
		starting.Go(func() {
			s, err := dbserver.Start(ctx, f, dbserver.Options{Progress: say})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				w.databases[f] = s
			}
			errs = append(errs, err)
		})
	}
	for name := range brokers {
		starting.Go(func() {
			s, err := startBroker(ctx, name, say)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				w.brokers[name] = s
			}
			errs = append(errs, err)
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) close() {
	for _, b := range w.brokers {
		b.close()
	}
	for _, d := range w.databases {
		_ = d.Stop() // what is left of its folder the next start removes
	}
}

// strike kills and restarts the peer of an experiment.
func (w *world) strike(e Experiment) func(context.Context) error {
	return func(ctx context.Context) error {
		if e.killsBroker() {
			b := w.brokers[e.Broker]
			if err := b.kill(); err != nil {
				return fmt.Errorf("kill %s: %w", e.Broker, err)
			}
			return b.restart(ctx)
		}
		d := w.databases[e.Database]
		d.Kill()
		return d.Restart(ctx)
	}
}

// peer names the server that an experiment kills.
func (e Experiment) peer() string {
	if e.killsBroker() {
		return e.Broker
	}
	return string(e.Database)
}
