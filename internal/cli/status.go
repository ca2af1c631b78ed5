package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// watchLeast is the shortest time between two looks.
const watchLeast = 500 * time.Millisecond

func (a *app) statusCommand() *cobra.Command {
	var o opsFlags
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the outbox, its relays and its consumers are",
		Long: `Show events by status, what was written and published lately, the leases, the relays, a
pause, dead events, and each consumer.

What was written in the last minute and hour is found by event ids, which hold the clocks of
the services that made them, and is of the newest 30,000 events at most. What was published
is counted among these. What a consumer is behind with is of the newest 1000 published
events that it handles. "about" stands before numbers that the server estimates.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "watch"); err != nil {
				return err
			}
			if cmd.Flags().Changed("watch") && watch < watchLeast {
				return hinted{fmt.Errorf("--watch %s is too often", watch), "take " + watchLeast.String() + " or more"}
			}
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				if watch == 0 {
					return a.printStatus(ctx, s)
				}
				return a.watchStatus(ctx, s, watch)
			})
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().DurationVar(&watch, "watch", 0, "show it again and again, so long after the last time, until Ctrl-C")
	return cmd
}

func (a *app) printStatus(ctx context.Context, s *ops.Service) error {
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	return a.printData(st, func(t *tableWriter) { statusTable(t, st) })
}

// watchStatus shows the status until ctx ends. Only the first error ends it: a server may be
// away for a while.
func (a *app) watchStatus(ctx context.Context, s *ops.Service, every time.Duration) error {
	for first := true; ; first = false {
		if a.format == formatText && isTerminal(a.stdout) {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		} else if !first && a.format == formatText {
			fmt.Fprintln(a.stdout)
		}
		err := a.printStatus(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			a.reportError(opsError(err))
		}
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

func statusTable(t *tableWriter, st ops.Status) {
	t.row(fmt.Sprintf("%s, ordering %s, at %s", st.Service, st.Ordering, shortTime(st.At)))
	if p := st.Pause; p != nil {
		t.row(fmt.Sprintf("CLAIMS ARE PAUSED by %s since %s: %s", p.Operator, when(&p.Since, st.At), p.Reason))
	}
	t.row()
	t.row("EVENTS")
	t.row("pending", st.Events.Pending)
	t.row("published", about(st.Events.Estimated)+fmt.Sprint(st.Events.Published))
	t.row("dead", st.Events.Dead)
	t.row("discarded", st.Events.Discarded)
	if w := st.Oldest; w != nil {
		t.row("oldest waiting", fmt.Sprintf("%s, due for %s", w.EventID, lasted(time.Duration(w.Seconds*float64(time.Second)))))
	} else {
		t.row("oldest waiting", "none is due")
	}
	if overdue(st) {
		t.row("relays are alive, and events have been due for long: they are behind, their broker doesn't answer, or a frozen one holds these events; the logs and /readyz of each tell which")
	}
	t.row()
	t.row("TYPE", "WRITTEN 1m", "WRITTEN 1h", "PUBLISHED 1m", "PUBLISHED 1h")
	for _, f := range st.Flow {
		t.row(f.Type, f.WrittenMinute, atLeast(st.Sampled)+fmt.Sprint(f.WrittenHour), f.PublishedMinute, atLeast(st.Sampled)+fmt.Sprint(f.PublishedHour))
	}
	relayTables(t, st)
	if len(st.Dead) > 0 {
		t.row()
		t.row("DEAD TYPE", "KIND", "EVENTS")
		for _, g := range st.Dead {
			t.row(g.Type, orDash(g.Kind), g.Count)
		}
	}
	consumerTables(t, st)
}

// overdue holds when events wait that a healthy relay would have published: the database
// doesn't know whether the broker answers.
func overdue(st ops.Status) bool {
	return st.Pause == nil && len(st.Relays) > 0 && st.Oldest != nil && st.Oldest.Seconds >= 10
}

func relayTables(t *tableWriter, st ops.Status) {
	t.row()
	if len(st.Relays) == 0 {
		t.row("NO RELAY IS ALIVE")
	} else {
		t.row("RELAY", "HOST", "PROCESS", "STARTED", "ALIVE UNTIL")
	}
	for _, r := range st.Relays {
		t.row(r.Owner, r.Host, r.PID, when(&r.StartedAt, st.At), when(&r.AliveUntil, st.At))
	}
	if len(st.Leases) == 0 {
		t.row("no lease is held")
		return
	}
	held := "LANES"
	if st.Ordering == "none" {
		held = "EVENTS"
	}
	t.row()
	t.row("LEASE OF", "HOST", "PROCESS", held, "ENDS", "LAST ENDS")
	for _, l := range st.Leases {
		t.row(l.Owner, orDash(l.Host), l.PID, l.Held, when(&l.From, st.At), when(&l.Until, st.At))
	}
}

func consumerTables(t *tableWriter, st ops.Status) {
	if len(st.Consumers) == 0 {
		return
	}
	t.row()
	t.row("CONSUMER", "DONE 1m", "DONE 1h", "PARKED", "REDRIVES", "FAILING", "BEHIND")
	for _, c := range st.Consumers {
		behind := fmt.Sprint(c.Behind)
		if c.Behind > 0 {
			behind += fmt.Sprintf(" of the newest, for %s", lasted(time.Duration(c.BehindSeconds*float64(time.Second))))
		}
		t.row(c.Name, c.AppliedMinute, c.AppliedHour, c.Parked, c.Redrives, c.Failing, behind)
	}
	parked := false
	for _, c := range st.Consumers {
		for _, g := range c.ParkedBy {
			if !parked {
				t.row()
				t.row("PARKED AT", "TYPE", "KIND", "EVENTS")
				parked = true
			}
			t.row(c.Name, orDash(g.Type), g.Kind, g.Count)
		}
	}
}

func about(estimated bool) string {
	if estimated {
		return "about "
	}
	return ""
}

func atLeast(sampled bool) string {
	if sampled {
		return "at least "
	}
	return ""
}
