package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// reconcileFlags say what is compared, and what is done about it.
type reconcileFlags struct {
	day, zone, from, to string
	publish, apply      time.Duration
	event, consumer     string
	limit               int
	republish, yes      bool
	rate                int
	prometheus          string
}

func (f *reconcileFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.day, "day", "", "compare a day: 2026-11-30")
	flags.StringVar(&f.zone, "time-zone", "UTC", "whose day --day is: Europe/Berlin")
	flags.StringVar(&f.from, "from", "", "compare from a time on, 2026-11-30T14:00:00Z, or from so long ago as 2h; by default 24h before --to")
	flags.StringVar(&f.to, "to", "", "compare up to a time, or up to so long ago; by default up to now less both delays")
	flags.DurationVar(&f.publish, "publish-delay", 5*time.Minute, "how long an event may be pending")
	flags.DurationVar(&f.apply, "apply-delay", 10*time.Minute, "how long after its publication a consumer may take")
	flags.StringVar(&f.event, "event", "", "only events of this type")
	flags.StringVar(&f.consumer, "consumer", "", "only this consumer, and what it handles")
	flags.IntVar(&f.limit, "limit", 1000, "how many differences are listed, and republished, at most; all are counted")
	flags.BoolVar(&f.republish, "republish", false, "show how what is missing would be made anew, by the same event ids")
	flags.BoolVar(&f.yes, "yes", false, "with --republish: do it")
	flags.IntVar(&f.rate, "rate", 100, "with --republish: how many events a second; 0 for no limit")
	flags.StringVar(&f.prometheus, "prometheus", "", "write the counts to this file, for the textfile collector of node_exporter: …/outbox.prom")
}

func (a *app) reconcileCommand() *cobra.Command {
	var o opsFlags
	var f reconcileFlags
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Tell what is missing between business rows, events and consumers",
		Long: `Compare the business rows of the events' sources, the outbox, and what consumers have
written down of the events, for a window of time. It finds:

  no-event       a business row without its event
  not-published  an event that is pending for longer than --publish-delay
  dead           an event that relays gave up on
  not-applied    an event that a consumer has not processed --apply-delay after its publication
  parked         an event that a consumer gave up on
  no-source      an event without its business row, or what consumers have of an event that
                 is nowhere

It only reads, in small batches without locks, and can run beside everything else. With
--republish --yes it makes anew what is missing: events by source.rebuild, and deliveries to
one consumer past the broker. docs/reconcile.md says what each finding means.
Ends with exit code 1 when there is a difference, republished or not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reconcile(cmd, o, f) },
	}
	o.register(cmd.Flags())
	f.register(cmd.Flags())
	return cmd
}

// reconciled is what the command prints.
type reconciled struct {
	*ops.ReconcileReport
	Republish *republished `json:"republish,omitempty"`
}

type republished struct {
	DryRun  bool              `json:"dry_run"`
	Results []ops.Republished `json:"results"`
}

func (a *app) reconcile(cmd *cobra.Command, o opsFlags, f reconcileFlags) error {
	if err := checkGiven(cmd, "from", "to", "day", "event", "consumer", "prometheus", "time-zone"); err != nil {
		return err
	}
	options, err := f.options(time.Now())
	if err != nil {
		return err
	}
	options.Note = func(text string) { fmt.Fprintln(a.stderr, "outboxgen:", printable(text)) }
	options.Progress = a.reading()
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	report, err := s.Reconcile(cmd.Context(), options)
	if err != nil {
		return opsError(err)
	}
	out := reconciled{ReconcileReport: report}
	var failed error
	if f.prometheus != "" {
		failed = writeTextfile(f.prometheus, report, time.Now())
	}
	if f.republish && failed == nil {
		out.Republish = &republished{DryRun: !f.yes}
		out.Republish.Results, failed = s.Republish(cmd.Context(), report, f.yes, ops.Pace{PerSecond: f.rate, Progress: a.progress("looked at or made anew")})
		if out.Republish.Results == nil {
			out.Republish.Results = []ops.Republished{}
		}
	}
	if err := a.printData(out, func(t *tableWriter) { reconcileTable(t, out) }); err != nil && failed == nil {
		failed = err
	}
	switch {
	case failed != nil:
		return opsError(failed)
	case report.Differences() > 0:
		return errReported
	}
	return nil
}

// options are the comparison that the flags ask for.
func (f *reconcileFlags) options(now time.Time) (ops.ReconcileOptions, error) {
	o := ops.ReconcileOptions{PublishDelay: f.publish, ApplyDelay: f.apply, Event: f.event, Consumer: f.consumer, Limit: f.limit}
	switch {
	case f.publish <= 0 || f.apply <= 0:
		return o, hinted{errors.New("--publish-delay and --apply-delay must be positive"), "leave them out for 5m and 10m"}
	case f.limit < 1 || f.limit > 100_000:
		return o, hinted{errors.New("--limit is not between 1 and 100000"), "leave it out for 1000"}
	case f.rate < 0:
		return o, hinted{errors.New("--rate is a negative number"), "leave it out for 100, or write 0 for no limit"}
	case f.yes && !f.republish:
		return o, hinted{errors.New("--yes is given without --republish"), "reconcile alone changes nothing: leave it out"}
	case f.day != "" && (f.from != "" || f.to != ""):
		return o, hinted{errors.New("both --day and --from or --to are given"), "leave one of them out"}
	case f.day == "" && f.zone != "UTC":
		return o, hinted{errors.New("--time-zone is given without --day"), "times have their zone themselves: 2026-11-30T14:00:00+01:00"}
	}
	if f.day != "" {
		zone, err := time.LoadLocation(f.zone)
		if err != nil || f.zone == "Local" {
			return o, hinted{fmt.Errorf("--time-zone %q is not known", f.zone), "write one of the tz database, such as Europe/Berlin, or UTC"}
		}
		if o.From, err = time.ParseInLocation(time.DateOnly, f.day, zone); err != nil {
			return o, hinted{fmt.Errorf("--day %q is not a day", f.day), "write it as 2026-11-30"}
		}
		o.To = o.From.AddDate(0, 0, 1).UTC()
		o.From = o.From.UTC()
		return o, nil
	}
	var err error
	if o.From, err = moment("from", f.from, now); err != nil {
		return o, err
	}
	o.To, err = moment("to", f.to, now)
	return o, err
}

// reading tells a person what is being read.
func (a *app) reading() func(string, int64) {
	if !isTerminal(a.stderr) && !a.verbose {
		return nil
	}
	var last time.Time
	return func(what string, rows int64) {
		if time.Since(last) >= 2*time.Second {
			last = time.Now()
			fmt.Fprintf(a.stderr, "outboxgen: %d %s read\n", rows, what)
		}
	}
}

// shownFindings is how many differences people are shown; JSON has those of --limit.
const shownFindings = 200

func reconcileTable(t *tableWriter, out reconciled) {
	if len(out.Findings) > 0 {
		t.row("CHECK", "EVENT", "TYPE", "CONSUMER", "SINCE", "AGGREGATE", "WHAT IS KNOWN")
	}
	for i, f := range out.Findings {
		if i == shownFindings {
			t.row("…")
			break
		}
		t.row(f.Check, orDash(f.EventID), orDash(f.Type), orDash(f.Consumer), shortTime(f.Since)+" ("+age(out.At.Sub(f.Since))+")", aggregate(f), f.Detail+processedText(f))
	}
	if out.Republish != nil {
		republishTable(t, out.Republish)
	}
	from, to := shortTime(out.Window.From), shortTime(out.Window.To)
	t.row(fmt.Sprintf("%s to %s: %d business rows, %d events and %d dedup rows were read", from, to, out.BusinessRows, out.Events, out.DedupRows))
	if out.BusinessRows == 0 && out.Events == 0 && out.DedupRows == 0 {
		t.row("nothing was there to be compared; what is younger than both delays is left out: --publish-delay, --apply-delay")
		return
	}
	if out.Differences() == 0 {
		t.row("no difference")
		return
	}
	for _, c := range ops.Checks() {
		if n := out.Counts[c]; n > 0 {
			t.row(string(c) + ": " + fmt.Sprint(n))
		}
	}
	if out.Truncated {
		t.row("not all of them are listed: --limit")
	}
}

func republishTable(t *tableWriter, r *republished) {
	done, deliveries := 0, 0
	for _, res := range r.Results {
		if res.Done {
			done++
		}
		if res.Done && res.Check == ops.CheckNotApplied {
			deliveries++
		}
		if res.Note != "" {
			t.row(res.Check, res.EventID, orDash(res.Consumer), res.Note)
		}
	}
	if r.DryRun {
		if deliveries > 0 {
			t.row(fmt.Sprintf("%s would run the consumer's handler: look first whether the effect is there, or it happens a second time", counted(deliveries, "difference")))
		}
		t.row(fmt.Sprintf("%s would be made anew. Nothing was changed: --republish --yes does it.", counted(done, "difference")))
		return
	}
	t.row(fmt.Sprintf("%s made anew: relays and consumers' processes do the rest", counted(done, "difference")))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func aggregate(f ops.Finding) string {
	if f.AggregateType == "" {
		return "-"
	}
	return f.AggregateType + "/" + f.AggregateID
}

func processedText(f ops.Finding) string {
	text := ""
	for _, p := range f.ProcessedBy {
		text += fmt.Sprintf("; %s by %s at %s", p.Outcome, p.Consumer, shortTime(p.At))
	}
	return text
}

// age is how long ago something was, for people.
func age(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	i := slices.IndexFunc(units, func(u struct {
		size time.Duration
		name string
	},
	) bool {
		return d >= u.size
	})
	if i < 0 {
		return "now"
	}
	return fmt.Sprintf("%d%s ago", d/units[i].size, units[i].name)
}
