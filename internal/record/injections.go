package record

import (
	"slices"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
)

// Required is an injection that every verification makes.
type Required struct {
	ID, Title string
	Point     fault.Point
	Expected  string
	Plan      history.Plan // what it must have shown; its faults are the runner's to name
}

// The ids of the required injections.
const (
	BeforeCommit      = "before-commit"
	CommitReplyLost   = "commit-reply-lost"
	BeforeClaim       = "committed-not-claimed"
	ConfirmedUnmarked = "confirmed-not-marked"
	ExpiredLease      = "expired-lease-late-mark"
	CommittedUnacked  = "consumed-not-acknowledged"
	DedupError        = "dedup-row-other-error"
)

// RequiredInjections are the seven.
func RequiredInjections() []Required {
	return []Required{
		{
			ID: BeforeCommit, Title: "before the business transaction's commit", Point: fault.WriterCommit,
			Expected: "neither the business change nor its event is there, and a repeat of the request makes both once",
		},
		{
			ID: CommitReplyLost, Title: "the commit succeeds and the client sees an error", Point: fault.WriterReply,
			Expected: "the writer is told Unknown, business change and event are there once, and are found by the request",
			Plan:     history.Plan{Unknown: true},
		},
		{
			ID: BeforeClaim, Title: "after the commit, before a claim", Point: fault.WriterCommitted,
			Expected: "the event waits in its table and is published when a relay comes",
		},
		{
			ID: ConfirmedUnmarked, Title: "after the broker's confirm, before the mark", Point: fault.RelayConfirmed,
			Expected: "the event is published again under the same id, and each consumer absorbs the repeat",
			Plan:     history.Plan{Repeat: true, Redelivery: true},
		},
		{
			ID: ExpiredLease, Title: "concurrent claims with an expired lease, and a late mark of the old owner", Point: fault.RelayOverdue,
			Expected: "another relay publishes and marks the event; the old owner's mark changes nothing and is counted as lost",
			Plan:     history.Plan{Repeat: true, LostLease: true},
		},
		{
			ID: CommittedUnacked, Title: "after the consumer's commit, before the acknowledgement", Point: fault.ConsumerCommitted,
			Expected: "the message is delivered again, and the dedup row absorbs it: one effect",
			Plan:     history.Plan{Redelivery: true},
		},
		{
			ID: DedupError, Title: "another integrity or data error while the dedup row is claimed", Point: fault.ConsumerDedup,
			Expected: "it is not taken for a duplicate: rolled back, not acknowledged, delivered again and applied once",
			Plan:     history.Plan{Error: true},
		},
	}
}

// RequiredInjection returns the one of that id.
func RequiredInjection(id string) (Required, bool) {
	all := RequiredInjections()
	i := slices.IndexFunc(all, func(r Required) bool { return r.ID == id })
	if i < 0 {
		return Required{}, false
	}
	return all[i], true
}

// MissingInjections are the ids of the required ones that the record doesn't have.
func (r *Record) MissingInjections() []string {
	var missing []string
	for _, want := range RequiredInjections() {
		if !slices.ContainsFunc(r.Injections, func(i Injection) bool { return i.ID == want.ID }) {
			missing = append(missing, want.ID)
		}
	}
	return missing
}

// NotMade tells of an injection that the record doesn't have.
func NotMade(id string) string { return "the injection " + id + " was not made" }
