package outboxtest

import (
	"context"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
)

// step is an injection as it is to be made.
type step struct {
	record.Required
	outcome string // of the fault; none without one
	run     func(*injection, context.Context) error
}

const noFault = "none"

// steps are the injections in their order, the faultless request first.
func (v *verification) steps() []step {
	steps := []step{
		{faultless, noFault, (*injection).faultless},
		{required(record.BeforeCommit), record.OutcomeCutRequest, (*injection).beforeCommit},
		{required(record.CommitReplyLost), record.OutcomeCutReply, (*injection).commitReplyLost},
		{required(record.BeforeClaim), record.OutcomeKill, (*injection).beforeClaim},
		{required(record.ConfirmedUnmarked), record.OutcomeKill, (*injection).confirmedUnmarked},
		{required(record.ExpiredLease), record.OutcomeStop, (*injection).expiredLease},
		{required(record.CommittedUnacked), record.OutcomeKill, consumersDie((*injection).dieApplied)},
		{required(record.DedupError), "error", (*injection).dedupError},
		{handlerError, "error", (*injection).handlerError},
		{effectUncommitted, record.OutcomeCutRequest, consumersDie(dieAtCommit(mysqlproxy.CutRequest))},
		{consumerReplyLost, record.OutcomeCutReply, consumersDie(dieAtCommit(mysqlproxy.CutReply))},
	}
	if v.cfg.Refused != nil {
		steps = append(steps, step{businessError, "error", (*injection).refused})
	}
	return steps
}

func required(id string) record.Required {
	r, _ := record.RequiredInjection(id) // the ids are constants
	return r
}

// What is done beside the required injections.
var (
	faultless = record.Required{
		ID: "no-fault", Title: "a request without any fault", Point: "none",
		Expected: "business row and event are there once, and each consumer has the effect once",
	}
	handlerError = record.Required{
		ID: "handler-statement-error", Title: "the database answers a statement of the handler's with an error", Point: fault.ConsumerEffect,
		Expected: "effect and dedup row are rolled back together, the message is delivered again and has its effect once",
	}
	effectUncommitted = record.Required{
		ID: "effect-not-committed", Title: "after the consumer's effect, before its commit", Point: fault.ConsumerCommit,
		Expected: "effect and dedup row are rolled back together, the message is delivered again and has its effect once",
		Plan:     history.Plan{Error: true},
	}
	consumerReplyLost = record.Required{
		ID: "consumer-commit-reply-lost", Title: "the consumer's commit succeeds and it sees an error", Point: fault.ConsumerReply,
		Expected: "it is not acknowledged; the message is delivered again, and the dedup row absorbs it",
		Plan:     history.Plan{Error: true, Redelivery: true},
	}
	businessError = record.Required{
		ID: "business-error", Title: "the business operation is refused", Point: "business",
		Expected: "its transaction is rolled back: neither a business row nor an event",
	}
)
