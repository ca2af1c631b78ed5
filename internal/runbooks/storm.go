package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// frozenWhilePublishing: a relay has sent its batch and stands still, as its virtual machine does, until
// another one has taken its lanes.
func frozenWhilePublishing(ctx context.Context, w *world) error {
	// A stream drops repeats that come within its window, two minutes by default: those that come
	// later are for the dedup rows.
	if err := w.changeStream(ctx, func(c *jetstream.StreamConfig) { c.Duplicates = 100 * time.Millisecond }); err != nil {
		return err
	}
	metrics, err := w.withMetrics("relay", "consumers")
	if err != nil {
		return err
	}
	if err := w.order(ctx, 1, 5); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 5, published); err != nil {
		return err
	}
	server := w.broker.(*natsProcess).proc.PID()
	if err := freeze(server); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 10); err != nil {
		return err
	}
	time.Sleep(time.Second) // that the relay has sent what it has claimed can't be seen
	if err := freeze(w.processes["relay"].PID()); err != nil {
		return err
	}
	if err := thaw(server); err != nil {
		return err
	}
	if err := w.start("relay-2", w.bin, "relay"); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 15, published); err != nil { // its leases have run out
		return err
	}
	if err := thaw(w.processes["relay"].PID()); err != nil {
		return err
	}
	if err := w.mended(ctx); err != nil {
		return err
	}
	// Whether it comes to late marks as well depends on what it sees first: the confirms, or that its time is over.
	if _, err := metrics.sum(ctx, "outbox_relay_stale_marks_total"); err != nil {
		return err
	}
	return metrics.happened(ctx, "outbox_consumer_duplicates_total")
}

// alarm: the broker's memory alarm begins while messages are on their way. They are in its hands, their
// confirms don't come in time, and the relay publishes them again. Consumers die meanwhile.
func alarm(ctx context.Context, w *world) error {
	metrics, err := w.withMetrics("consumers")
	if err != nil {
		return err
	}
	if err := w.order(ctx, 1, 10); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 10, published); err != nil {
		return err
	}
	server := w.broker.(*rabbitserver.Server)
	if err := server.MemoryAlarm(ctx, true); err != nil {
		return err
	}
	if err := w.order(ctx, 2, 20); err != nil {
		return err
	}
	err = await(ctx, time.Minute, "the relay has sent events whose outcome it doesn't know", func() (bool, error) {
		log, err := os.ReadFile(filepath.Join(w.dir, "relay.log"))
		return strings.Contains(string(log), "publish outcomes unknown"), err
	})
	if err != nil {
		return err
	}
	if err := server.MemoryAlarm(ctx, false); err != nil {
		return err
	}
	w.kill("consumers")
	if err := w.startWithMetrics("consumers", metrics); err != nil {
		return err
	}
	if err := w.mended(ctx); err != nil {
		return err
	}
	return metrics.happened(ctx, "outbox_consumer_duplicates_total")
}

// dedupRowsDeleted: somebody has emptied consumed_event. The effects are there, and what remembers
// them isn't.
func dedupRowsDeleted(ctx context.Context, w *world) error {
	if err := w.order(ctx, 1, 12); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 12, jobs); err != nil {
		return err
	}
	if err := w.awaitCount(ctx, 12, reported); err != nil {
		return err
	}
	if err := w.exec(ctx, "DELETE FROM consumed_event"); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // longer than the delay of the reconciliation
	if err := w.reconcile(ctx, 1); err != nil {
		return err
	}
	// No republish: the effects are there. What was applied before that moment is written down again.
	err := w.exec(ctx, `INSERT IGNORE INTO consumed_event (consumer_name, event_id, consumed_at, outcome)
  SELECT 'notification-planner', event_id, planned_at, 1 FROM notification_job`)
	if err != nil {
		return err
	}
	err = w.exec(ctx, `INSERT IGNORE INTO consumed_event (consumer_name, event_id, consumed_at, outcome)
  SELECT 'sales-report', event_id, published_at, 1 FROM outbox_event
  WHERE status = 2 AND event_type = 'order.accepted' AND published_at < UTC_TIMESTAMP(6)`)
	if err != nil {
		return err
	}
	if err := w.order(ctx, 2, 3); err != nil {
		return err
	}
	return w.mended(ctx)
}

// served are the addresses at which processes serve their metrics.
type served map[string]string

// withMetrics starts processes anew, serving their metrics.
func (w *world) withMetrics(names ...string) (served, error) {
	all := served{}
	for _, name := range names {
		w.kill(name)
		if err := w.startWithMetrics(name, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *world) startWithMetrics(name string, all served) error {
	port, err := throwaway.FreePort()
	if err != nil {
		return err
	}
	all[name] = fmt.Sprintf("127.0.0.1:%d", port)
	return w.start(name, w.bin, name, "ORDERS_METRICS_ADDR="+all[name])
}

// happened prints the series of a metric that are above 0. None is an error: a fault that did not
// happen has shown nothing.
func (s served) happened(ctx context.Context, metric string) error {
	return await(ctx, 20*time.Second, metric+" is above 0, as the fault makes it", func() (bool, error) {
		n, err := s.sum(ctx, metric)
		return n > 0, err
	})
}

// sum adds up the series of a metric, and prints those that are above 0.
func (s served) sum(ctx context.Context, metric string) (total float64, err error) {
	for name, addr := range s {
		text, err := scrape(ctx, addr)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(text) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseFloat(value, 64)
			if !strings.HasPrefix(series, metric) || err != nil || n == 0 {
				continue
			}
			total += n
			fmt.Printf("%s: %s\n", name, strings.TrimSpace(line))
		}
	}
	return total, nil
}

// scrape waits for a process that has just begun.
func scrape(ctx context.Context, addr string) (text string, err error) {
	err = await(ctx, 20*time.Second, "a process serves its metrics", func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
		if err != nil {
			return false, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		text = string(body)
		return err == nil, err
	})
	return text, err
}
