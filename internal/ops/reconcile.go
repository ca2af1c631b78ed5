package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Check is a kind of difference between business rows, events and consumers.
type Check string

// The checks.
const (
	CheckNoEvent      Check = "no-event"      // a business row without its event
	CheckNotPublished Check = "not-published" // an event that is pending for too long
	CheckDead         Check = "dead"          // an event that relays gave up on
	CheckNotApplied   Check = "not-applied"   // a published event that a consumer has not processed
	CheckParked       Check = "parked"        // an event that a consumer gave up on
	CheckNoSource     Check = "no-source"     // an event, or what a consumer made of one, that nothing stands for
)

// Checks are all of them, in the order of an event's way.
func Checks() []Check {
	return []Check{CheckNoEvent, CheckNotPublished, CheckDead, CheckNotApplied, CheckParked, CheckNoSource}
}

// ReconcileOptions say what is compared.
type ReconcileOptions struct {
	// From and To are the window: what happened from From on and before To. To defaults to
	// now less both delays, From to a day before To. What is ahead of now is cut off.
	From, To time.Time

	// PublishDelay is how long an event may be pending. Defaults to 5 min.
	PublishDelay time.Duration

	// ApplyDelay is how long after its publication a consumer may take. Defaults to 10 min.
	ApplyDelay time.Duration

	Event    string // only events of this type; all when empty
	Consumer string // only this consumer, and what it handles; all when empty

	// Limit is how many differences are returned; all are counted. Defaults to 1000.
	Limit int

	// Batch is how many rows a statement reads at most. Defaults to 4000.
	Batch int

	// Progress is told what is being read, and how many rows were; it may be nil.
	Progress func(what string, rows int64)

	// Note is told what a person should know while it runs; it may be nil.
	Note func(text string)
}

func (o ReconcileOptions) withDefaults() ReconcileOptions {
	if o.PublishDelay == 0 {
		o.PublishDelay = 5 * time.Minute
	}
	if o.ApplyDelay == 0 {
		o.ApplyDelay = 10 * time.Minute
	}
	if o.Limit == 0 {
		o.Limit = 1000
	}
	if o.Batch == 0 {
		o.Batch = 4000
	}
	if o.Progress == nil {
		o.Progress = func(string, int64) {}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return o
}

// ReconcileReport is what a comparison found.
type ReconcileReport struct {
	Window  Window    `json:"window"`
	Clipped []Clip    `json:"clipped"` // where less than the window could be compared
	Notes   []string  `json:"notes"`   // what was not compared, and how it was done
	At      time.Time `json:"at"`      // when it began, by the outbox's database

	BusinessRows int64 `json:"business_rows"` // read of the window and its margins
	Events       int64 `json:"events"`
	DedupRows    int64 `json:"dedup_rows"`

	Counts    map[Check]int64 `json:"counts"`
	Findings  []Finding       `json:"findings"`
	Truncated bool            `json:"truncated"` // there are more than Findings has

	audit int64 // the newest row of the audit before it began
}

// Differences is how many there are.
func (r *ReconcileReport) Differences() (n int64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// Window is a stretch of time, without its end.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

func (w Window) has(t time.Time) bool { return !t.Before(w.From) && t.Before(w.To) }

// Clip says that a check could only look back to a time.
type Clip struct {
	Check    Check     `json:"check"`
	Consumer string    `json:"consumer,omitempty"`
	From     time.Time `json:"from"`
	Reason   string    `json:"reason"`
}

// Finding is a difference.
type Finding struct {
	Check            Check     `json:"check"`
	EventID          string    `json:"event_id"`
	Type             string    `json:"type,omitempty"`
	Consumer         string    `json:"consumer,omitempty"`
	AggregateType    string    `json:"aggregate_type,omitempty"`
	AggregateID      string    `json:"aggregate_id,omitempty"`
	AggregateVersion int64     `json:"aggregate_version,omitempty"`
	Since            time.Time `json:"since"`  // it is missing, pending, dead, published or parked
	Detail           string    `json:"detail"` // what is known

	// ProcessedBy are the consumers that are done with an event of which there is no row.
	ProcessedBy []Processed `json:"processed_by,omitempty"`

	key   []any  // of the business row: its primary key
	event *event // of a business row without its event
}

// Processed says how a consumer ended an event.
type Processed struct {
	Consumer string    `json:"consumer"`
	Outcome  string    `json:"outcome"`
	At       time.Time `json:"at"`
}

// event is one event type that is compared.
type event struct {
	*spec.Event
	consumers []*comparedConsumer // that handle it
	source    *sourceTable        // nil without a source
}

// comparedConsumer is a consumer that is compared.
type comparedConsumer struct {
	name   string
	db     outbox.DBTX // its database, at READ COMMITTED
	retain time.Duration
	window Window // in which its dedup rows must be there
	asked  bool   // false: only what it processed is of interest
}

// reconciler is one comparison.
type reconciler struct {
	*Service
	ReconcileOptions
	report    *ReconcileReport
	db        outbox.DBTX // the outbox's, at READ COMMITTED
	now       time.Time   // of the outbox's database
	events    map[string]*event
	order     []*event
	consumers []*comparedConsumer

	known  Window              // in which an event that is missing was never there
	named  map[string]struct{} // events that business rows lack
	unsure []Finding           // that only a later look can tell
	later  func(time.Duration) bool
}

// Reconcile compares business rows, events and what consumers have written down of them. It
// only reads: each statement sees what is committed, locks nothing and reads a bounded number
// of rows. What looks different is looked at once more before it is reported, since all of
// it may change meanwhile.
func (s *Service) Reconcile(ctx context.Context, o ReconcileOptions) (*ReconcileReport, error) {
	r := &reconciler{
		Service: s, ReconcileOptions: o.withDefaults(), named: map[string]struct{}{}, events: map[string]*event{},
		report: &ReconcileReport{Counts: map[Check]int64{}, Clipped: []Clip{}, Notes: []string{}, Findings: []Finding{}},
		later:  func(d time.Duration) bool { return wait(ctx, d) },
	}
	for _, c := range Checks() {
		r.report.Counts[c] = 0
	}
	closeAll, err := r.open(ctx)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{r.compareSources, r.compareEvents, r.lookAgain} {
		if err := step(ctx); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

func (r *reconciler) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.report.Notes = append(r.report.Notes, text)
	r.Note(text)
}

// add reports a difference.
func (r *reconciler) add(f Finding) {
	r.report.Counts[f.Check]++
	if len(r.report.Findings) < r.Limit {
		r.report.Findings = append(r.report.Findings, f)
	} else {
		r.report.Truncated = true
	}
}
