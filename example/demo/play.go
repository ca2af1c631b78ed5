package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/example/consumers/notificationplanner"
	"github.com/outboxgen/outboxgen/example/consumers/upcasts"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	// stallTimeout bounds the wait for everything to arrive: so long without any
	// progress is too long. A message that failed waits for up to 36 s.
	stallTimeout = 45 * time.Second

	// deathTimeout bounds the wait for the victims, after the load.
	deathTimeout = 15 * time.Second
)

var consumerNames = []string{orderevents.ConsumerNameNotificationPlanner, orderevents.ConsumerNameSalesReport}

// play runs the load and sees to what happens meanwhile, in whatever order.
func (c *cast) play(ctx context.Context, l *load, errands []errand, found *facts) error {
	early := len(errands) / 10
	if err := l.run(ctx, errands[:early]); err != nil {
		return err
	}
	if err := c.startRelays(ctx); err != nil {
		return err
	}
	ordersBefore, _ := l.answers.counts()
	loaded := make(chan error, 1)
	begin := time.Now()
	go func() { loaded <- l.run(ctx, errands[early:]) }()
	var (
		relayDied      = c.relayVictim.done
		consumerDied   = c.consumerVictim.done
		late           <-chan time.Time
		loadRunning    = true
		channelMissing = true
		look           = time.NewTicker(100 * time.Millisecond)
	)
	defer look.Stop()
	for loadRunning || channelMissing || relayDied != nil || consumerDied != nil {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return nil // what didn't happen is said by the verdicts
		case err = <-loaded:
			loadRunning, loaded = false, nil
			late = time.After(deathTimeout)
			orders, refused := l.answers.counts()
			c.out.event("the clients have their answers: %s orders, %s refused (%.0f orders/s)",
				number(orders), number(refused), float64(orders-ordersBefore)/time.Since(begin).Seconds())
		case <-relayDied:
			relayDied = nil
			err = c.relayDeath(ctx, found)
		case <-consumerDied:
			consumerDied = nil
			err = c.consumerDeath(ctx, found)
		case <-look.C:
			if channelMissing && !loadRunning {
				channelMissing, err = c.lookForParked(ctx, found)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// startRelays starts two for the orders that were taken without one. The victim is
// the second: it gets its share of the lanes, and the others go on when it dies.
func (c *cast) startRelays(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 60*time.Second, errors.New("the relays did not start within a minute"))
	defer cancel()
	const waiting = "SELECT COUNT(*) FROM outbox_event WHERE status = 0"
	var events int
	if err := c.stage.db.QueryRowContext(ctx, waiting).Scan(&events); err != nil {
		return fmt.Errorf("count the events: %w", err)
	}
	c.out.event("%s events wait in the table, for orders need neither a relay nor a broker; relay-1 starts", number(events))
	if err := c.startRelay("relay-1"); err != nil {
		return err
	}
	if err := c.await(ctx, waiting, 0); err != nil {
		return err
	}
	if c.relayVictim, err = c.startVictim("relay-2", relayVictim); err != nil {
		return err
	}
	if err := c.await(ctx, "SELECT COUNT(*) FROM outbox_relay", 2); err != nil {
		return err
	}
	c.out.event("relay-1 has published them; relay-2 shares the work from now on, and will be killed")
	return nil
}

// await waits until the database counts so many.
func (c *cast) await(ctx context.Context, query string, want int) error {
	for {
		var n int
		err := c.stage.db.QueryRowContext(ctx, query).Scan(&n)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", query, err)
		case n == want:
			return nil
		case !sleep(ctx, 20*time.Millisecond):
			return context.Cause(ctx)
		}
	}
}

// relayDeath looks at the dead relay's last batch while its lease still runs, and
// starts another relay, as a supervisor would.
func (c *cast) relayDeath(ctx context.Context, found *facts) error {
	death := &found.relayDeath
	death.bySIGKILL = c.relayVictim.killedBySIGKILL()
	words := c.relayVictim.words.Load()
	if words == nil {
		return nil // it ended otherwise, which processes.fail has told
	}
	for _, id := range words.Events {
		eventID, err := outbox.ParseEventID(id)
		if err != nil {
			return err
		}
		state, err := orderevents.LookupEvent(ctx, c.stage.db, eventID)
		if err != nil {
			return fmt.Errorf("look up event %s: %w", id, err)
		}
		death.batch = append(death.batch, leftEvent{
			id: id, state: state.State, heldByVictim: state.LeasePID == int64(c.relayVictim.pid()), leaseUntil: state.LeaseUntil,
		})
	}
	if len(death.batch) > 0 {
		c.out.event("relay-2 got SIGKILL between the broker's confirm and the mark of %s;"+
			" the table says %s, under its lease; its lanes wait for the end of that, %v at most, the others go on",
			count(len(death.batch), "event"), death.batch[0].state, relayLease)
	}
	c.out.event("relay-3 takes its place")
	return c.startRelay("relay-3")
}

// consumerDeath looks at what the dead consumer has committed.
func (c *cast) consumerDeath(ctx context.Context, found *facts) error {
	death := &found.consumerDeath
	death.bySIGKILL = c.consumerVictim.killedBySIGKILL()
	words := c.consumerVictim.words.Load()
	if words == nil || len(words.Events) != 1 {
		return nil
	}
	death.event, death.stats = words.Events[0], words.Stats
	err := c.stage.db.QueryRowContext(ctx,
		`SELECT (SELECT COUNT(*) FROM consumed_event WHERE consumer_name = ? AND event_id = ?),
			(SELECT COUNT(*) FROM notification_job WHERE event_id = ?)`,
		orderevents.ConsumerNameNotificationPlanner, death.event, death.event).Scan(&death.dedupRows, &death.jobs)
	if err != nil {
		return fmt.Errorf("look at the dead consumer's work: %w", err)
	}
	c.out.event("planner-2 got SIGKILL between the commit and the acknowledgement of its message %d", death.stats.Applied)
	return nil
}

// lookForParked opens the channel once an event was given up on for want of it.
func (c *cast) lookForParked(ctx context.Context, found *facts) (channelMissing bool, err error) {
	var parked int
	if err := c.stage.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM parked_event").Scan(&parked); err != nil {
		return true, fmt.Errorf("count the parked events: %w", err)
	}
	if parked == 0 {
		return true, nil
	}
	return false, c.openChannel(ctx, found)
}

// redrive hands the parked events to their handler again, as somebody would who has
// mended what was wrong.
func (c *cast) redrive(ctx context.Context, found *facts) error {
	planner := orderevents.NewNotificationPlanner(c.stage.db, &notificationplanner.Handler{}, &upcasts.Upcaster{}, nil)
	parked, err := planner.ParkedEvents(ctx, 0, 10_000)
	if err != nil {
		return err
	}
	for _, p := range parked {
		handling, err := planner.Redrive(ctx, p.EventID)
		if err != nil {
			return err
		}
		found.parked = append(found.parked, parkedFacts{
			event: p.EventID.String(), kind: p.Kind, attempts: p.Attempts, redriven: handling,
		})
	}
	found.redrives = planner.Stats()
	if len(parked) > 0 {
		c.out.event("%s parked after %d attempts; redriven now", count(len(parked), "event"), parked[0].Attempts)
	}
	return nil
}

// openChannel ends the foreign-key errors, after a look at what they left behind.
func (c *cast) openChannel(ctx context.Context, found *facts) error {
	b := &found.blocked
	const ofTenant = "CAST(JSON_EXTRACT(e.payload, '$.tenant_id') AS SIGNED) = ?"
	err := c.stage.db.QueryRowContext(ctx,
		`SELECT (SELECT COUNT(*) FROM outbox_event e WHERE e.status = 2 AND `+ofTenant+`),
			(SELECT COUNT(*) FROM outbox_event e JOIN consumed_event c ON c.event_id = e.event_id
				WHERE c.consumer_name = ? AND c.outcome = 1 AND `+ofTenant+`),
			(SELECT COUNT(*) FROM notification_job WHERE tenant_id = ?)`,
		blockedTenant, orderevents.ConsumerNameNotificationPlanner, blockedTenant, blockedTenant,
	).Scan(&b.published, &b.dedupRows, &b.jobs)
	if err != nil {
		return fmt.Errorf("look at tenant %d: %w", blockedTenant, err)
	}
	if _, err := c.stage.db.ExecContext(ctx, channelFor(blockedTenant)); err != nil {
		return fmt.Errorf("set up the channel of tenant %d: %w", blockedTenant, err)
	}
	c.out.event("tenant %d had no notification channel: %s foreign-key errors so far, %d published events without an effect;"+
		" it has one now", blockedTenant, number(c.seen.foreignKeyErrors.Load()), b.published)
	return nil
}

// drain waits until all has arrived, and returns what hasn't.
func (c *cast) drain(ctx context.Context) (missing []string, err error) {
	var before string
	progress := time.Now()
	for {
		if missing, err = c.missing(ctx); err != nil || len(missing) == 0 {
			return missing, err
		}
		switch now := strings.Join(missing, "; "); {
		case now != before:
			before, progress = now, time.Now()
		case time.Since(progress) > stallTimeout:
			c.out.event("gave up after %v without progress, waiting for: %s", stallTimeout, now)
			return missing, nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

func (c *cast) missing(ctx context.Context) ([]string, error) {
	var waiting int
	if err := c.stage.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_event WHERE status <> 2").Scan(&waiting); err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	var missing []string
	if waiting > 0 {
		missing = append(missing, fmt.Sprintf("%d events not published", waiting))
	}
	for _, name := range consumerNames {
		place, _ := orderevents.Topology().Consumer(name)
		var unhandled int
		err := c.stage.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM outbox_event e
			LEFT JOIN consumed_event c ON c.consumer_name = ? AND c.event_id = e.event_id
			WHERE c.event_id IS NULL AND e.event_type IN ('`+strings.Join(place.Events, "', '")+`')`, name).Scan(&unhandled)
		if err != nil {
			return nil, fmt.Errorf("count what %s has not handled: %w", name, err)
		}
		if unhandled > 0 {
			missing = append(missing, fmt.Sprintf("%d events not handled by %s", unhandled, name))
		}
		n, err := c.stage.broker.unacked(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("ask what %s has not acknowledged: %w", name, err)
		}
		if n > 0 {
			missing = append(missing, fmt.Sprintf("%d messages not acknowledged by %s", n, name))
		}
	}
	return missing, nil
}

// show keeps the live line until ctx ends.
func (c *cast) show(ctx context.Context, l *load) {
	for sleep(ctx, 250*time.Millisecond) {
		var published, waiting, effects int
		err := c.stage.db.QueryRowContext(ctx,
			`SELECT (SELECT COUNT(*) FROM outbox_event WHERE status = 2 AND event_id <> ?),
				(SELECT COUNT(*) FROM outbox_event WHERE status = 0),
				(SELECT COUNT(*) FROM notification_job)`, oldEvent).Scan(&published, &waiting, &effects)
		if err != nil || ctx.Err() != nil {
			continue // an ornament; what is wrong shows elsewhere
		}
		orders, _ := l.answers.counts()
		c.out.progress("%s orders, %s published, %s waiting, %s jobs, %s FK errors",
			number(orders), number(published), number(waiting), number(effects), number(c.seen.foreignKeyErrors.Load()))
	}
}

// finish stops the processes, which makes the consumers tell their figures, and collects the rest.
func (c *cast) finish(ctx context.Context, found *facts) error {
	if err := stopAll(append(c.relays, c.api, c.consumers)...); err != nil {
		return err
	}
	return c.collect(ctx, found)
}
