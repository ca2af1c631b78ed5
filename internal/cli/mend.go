package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// selectFlags say which dead or parked events are meant.
type selectFlags struct {
	all                bool
	typ, kind          string
	aggregate          string
	before, after      string
	limit              int
	yes                bool
	rate               int
	selectionDiscarded bool
}

func (f *selectFlags) register(flags *pflag.FlagSet, rates bool) {
	flags.BoolVar(&f.all, "all", false, "all of them")
	flags.StringVar(&f.typ, "type", "", "those of an event type")
	flags.StringVar(&f.kind, "kind", "", "those with a kind of error, as the lists show it")
	flags.StringVar(&f.aggregate, "aggregate", "", "those of an aggregate: order/123")
	flags.StringVar(&f.before, "before", "", "those that failed before a time, 2026-11-30T14:00:00Z, or longer ago than 2h")
	flags.StringVar(&f.after, "after", "", "those that failed since a time, or not longer ago than 2h")
	flags.IntVar(&f.limit, "limit", 0, "at most so many, the oldest")
	flags.BoolVar(&f.yes, "yes", false, "do it; without it the command only shows what it would do")
	if rates {
		flags.IntVar(&f.rate, "rate", 100, "how many events a second; 0 for no limit")
	}
}

// selection is what the flags and the event ids behind them say. A condition that is empty, as
// of a variable that is not set, is none, and would select more than somebody wanted.
func (f *selectFlags) selection(cmd *cobra.Command, args []string, now time.Time) (ops.Selection, error) {
	if err := checkGiven(cmd, "type", "kind", "aggregate", "before", "after"); err != nil {
		return ops.Selection{}, err
	}
	sel := ops.Selection{All: f.all, Type: f.typ, Kind: f.kind, Limit: f.limit, Discarded: f.selectionDiscarded}
	for _, arg := range args {
		id, err := eventID(arg)
		if err != nil {
			return sel, err
		}
		sel.IDs = append(sel.IDs, id)
	}
	if len(sel.IDs) > 0 && f.all {
		return sel, hinted{errors.New("both --all and event ids are given"), "leave one of them out"}
	}
	if len(sel.IDs) > 0 && f.conditions() {
		return sel, hinted{errors.New("both event ids and conditions are given"), "leave one of them out: event ids select the events that they name"}
	}
	if f.rate < 0 || f.limit < 0 {
		return sel, hinted{errors.New("--rate and --limit are no negative numbers"), "leave the flag out for its default"}
	}
	var err error
	if sel.AggregateType, sel.AggregateID, err = splitAggregate(f.aggregate); err != nil {
		return sel, err
	}
	if sel.Before, err = moment("before", f.before, now); err != nil {
		return sel, err
	}
	sel.After, err = moment("after", f.after, now)
	return sel, err
}

// conditions reports that something but event ids and --all says which events are meant.
func (f *selectFlags) conditions() bool {
	return f.typ != "" || f.kind != "" || f.aggregate != "" || f.before != "" || f.after != "" || f.limit != 0
}

// eventID reads an event id as people paste it.
func eventID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(strings.TrimSpace(text))
	if err != nil {
		return id, hinted{fmt.Errorf("%q is not an event id", shortened(text, 100)), "an event id is a UUID, such as 019b76da-a800-7000-8000-000000000001"}
	}
	return id, nil
}

// moment reads a time, or a duration that is as long ago; zero for no text.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil && !t.IsZero() {
		return t.UTC(), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, hinted{fmt.Errorf("--%s %q is neither a time nor a duration", flag, text), "write a time as 2026-11-30T14:00:00Z, or how long ago it was as 90m or 48h"}
}

func (f *selectFlags) pace(progress func(done, total int)) ops.Pace {
	return ops.Pace{PerSecond: f.rate, Progress: progress}
}

// progress tells a person how far a long change is.
func (a *app) progress(verb string) func(done, total int) {
	if !isTerminal(a.stderr) && !a.verbose {
		return nil
	}
	return func(done, total int) {
		if total > 200 || a.verbose {
			fmt.Fprintf(a.stderr, "outboxgen: %d of %d events %s\n", done, total, verb)
		}
	}
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// mending is a change of events that is shown before it is made.
type mending struct {
	verb string // "made due again"
	plan ops.Plan
	do   func(context.Context) ([]ops.Result, error)
}

// mend shows a plan, or carries it out.
func (a *app) mend(ctx context.Context, f selectFlags, m mending) error {
	out := struct {
		DryRun bool `json:"dry_run"`
		ops.Plan
		Results []ops.Result `json:"results"`
	}{!f.yes, m.plan, append([]ops.Result{}, m.plan.Gone...)}
	if !f.yes {
		return a.printData(out, func(t *tableWriter) { a.planTable(t, m) })
	}
	results, err := m.do(ctx)
	out.Results = append(out.Results, results...)
	if printErr := a.printData(out, func(t *tableWriter) { resultTable(t, m.verb, out.Results) }); err == nil {
		err = printErr
	}
	if err != nil {
		return opsError(err)
	}
	return notAll(out.Results)
}

// shownEvents is how many events of a plan people are shown.
const shownEvents = 50

func (a *app) planTable(t *tableWriter, m mending) {
	if len(m.plan.Events) > 0 {
		t.row("EVENT", "TYPE", "AGGREGATE", "VERSION", "FAILED", "ATTEMPTS", "KIND", "REASON")
	}
	for i, e := range m.plan.Events {
		if i == shownEvents {
			t.row("…")
			break
		}
		reason := e.Reason
		if e.Requested != "" {
			reason = "(asked for by " + e.Requested + ") " + reason
		}
		t.row(e.EventID, e.Type, e.AggregateType+"/"+e.AggregateID, e.AggregateVersion, shortTime(e.FailedAt), e.Attempts, e.Kind, shortened(reason, 60))
	}
	for _, g := range m.plan.Gone {
		t.row(g.EventID, g.Note)
	}
	switch n := len(m.plan.Events); {
	case n == 0:
		t.row("no event is selected: nothing would be done")
	default:
		if m.plan.More {
			t.row("there are more: those of one run are 100,000 at most, and the rest takes another")
		}
		t.row(fmt.Sprintf("%s would be %s, in this order. Nothing was changed: --yes does it.", counted(n, "event"), m.verb))
	}
}

func resultTable(t *tableWriter, verb string, results []ops.Result) {
	done := 0
	for _, r := range results {
		if r.Done {
			done++
		}
		if r.Note != "" {
			t.row(r.EventID, r.Note)
		}
	}
	of := ""
	if done < len(results) {
		of = fmt.Sprintf("%d of ", done)
	}
	t.row(fmt.Sprintf("%s%s %s", of, counted(len(results), "event"), verb))
}

// notAll ends a command with exit code 1 when something was not done.
func notAll(results []ops.Result) error {
	for _, r := range results {
		if !r.Done {
			return errReported
		}
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02T15:04:05Z")
}

func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
