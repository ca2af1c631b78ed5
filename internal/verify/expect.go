package verify

import (
	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/record"
)

// plan is what an experiment must have shown, for it to prove anything.
func (e Experiment) plan() history.Plan {
	p := history.Plan{}
	if required, ok := record.RequiredInjection(e.Injection); ok {
		p = required.Plan
	}
	p.Faults = []history.Fault{{Point: string(e.Point), Outcome: e.Outcome}}
	killed, cutReply := e.Outcome == record.OutcomeKill, e.Outcome == record.OutcomeCutReply
	cutRequest := e.Outcome == record.OutcomeCutRequest
	switch e.Point {
	case fault.WriterCommit:
		p.Unknown = p.Unknown || cutRequest
	case fault.WriterReply:
		p.Unknown = p.Unknown || cutReply
	case fault.WriterZombie:
		p.Unknown = true
	case fault.RelaySent:
		// Kafka's client sends again by itself, and its broker knows the repeat.
		p.Repeat = p.Repeat || cutReply && e.Broker != "kafka"
	case fault.RelayConfirmed, fault.RelayMark:
		p.Repeat = p.Repeat || killed
		p.Redelivery = p.Redelivery || killed
	case fault.RelayOverdue:
		stopped := e.Outcome == record.OutcomeStop
		p.Repeat, p.LostLease = p.Repeat || stopped, p.LostLease || stopped
	case fault.ConsumerReply:
		p.Redelivery = p.Redelivery || killed || cutReply
	case fault.ConsumerZombie:
		p.Redelivery = true
	case fault.ConsumerCommitted:
		p.Redelivery = p.Redelivery || killed
	case fault.ConsumerAcked:
		// Kafka's client commits the offset again by itself.
		p.Redelivery = p.Redelivery || cutRequest && e.Broker != "kafka"
	}
	if _, isError := serverErrors[e.Outcome]; isError && e.role() == roleConsumer && e.Outcome != record.Outcome1213 && e.Outcome != record.Outcome1020 {
		p.Error = true // those two a consumer tries again by itself
	}
	return p
}
