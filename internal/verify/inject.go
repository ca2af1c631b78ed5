package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/internal/record"
)

// injection is how a fault is brought about.
type injection struct {
	script string // for the victim's points; empty when the wire does it
	others string // for those of the others in its role
	proxy  *mysqlproxy.Proxy
	armed  *mysqlproxy.Fault
	wire   *wire

	// act is what the parent does when it has begun, and returns when it is over.
	act func(context.Context, *stage) error
}

// answerSize is more bytes than any broker's sign of life has, and less than an answer.
const answerSize = 20

// newInjection makes what an experiment needs before its victim starts.
func newInjection(s *stage) (*injection, error) {
	i := &injection{act: func(context.Context, *stage) error { return nil }}
	at := func(p fault.Point, action string) { i.script = fmt.Sprintf("%s@%d:%s", p, s.nth, action) }
	switch s.Outcome {
	case record.OutcomeKill:
		if s.Point.OnWire() {
			i.act = zombie(true)
			return i, i.arm(s, replyAt[s.Point], mysqlproxy.Rule{Action: mysqlproxy.HoldRequest})
		}
		at(s.Point, string(fault.Kill))
		i.act = func(ctx context.Context, s *stage) error { return s.replaceVictim(ctx) }
	case record.OutcomeStop:
		at(s.Point, string(fault.Stop))
		i.act = standStill
		if s.needsCompany() && s.long {
			i.others = fmt.Sprintf("%s:delay=%v", fault.RelayOverdue, lease/2)
		}
	case record.OutcomeDelay:
		return i, i.delay(s, at)
	case record.OutcomePeerKilled:
		at(s.Point, string(fault.Stop))
		i.act = func(ctx context.Context, s *stage) error {
			if err := s.kills.arrive(ctx); err != nil {
				return err
			}
			return s.victim().resume(ctx)
		}
	case record.OutcomeCutRequest:
		if brokerPoints[s.Point] && requestAt[s.Point].text == "" {
			return i, i.atBroker(s, requests, at, lose)
		}
		return i, i.arm(s, requestAt[s.Point], mysqlproxy.Rule{Action: mysqlproxy.CutRequest})
	case record.OutcomeCutReply:
		switch {
		case s.Point.OnWire():
			i.act = zombie(false)
			return i, i.arm(s, replyAt[s.Point], mysqlproxy.Rule{Action: mysqlproxy.HoldRequest})
		case s.Point == fault.RelaySent:
			return i, i.atBroker(s, replies, at, lose)
		}
		return i, i.arm(s, replyAt[s.Point], mysqlproxy.Rule{Action: mysqlproxy.CutReply})
	default:
		answer, ok := serverErrors[s.Outcome]
		place := errorAt[s.Point]
		switch {
		case s.Injection == record.DedupError:
			answer, ok = dedupErrors[s.variant%len(dedupErrors)], true
		case place.commit:
			answer.RollsBack = true // a COMMIT that is refused
		}
		if !ok {
			return nil, fmt.Errorf("no way to bring about %q", s.Outcome)
		}
		return i, i.arm(s, place, mysqlproxy.Rule{Action: mysqlproxy.Answer, Error: answer})
	}
	return i, nil
}

// delay lets time pass in the process or, one time in two where there is such a place, on
// the wire: more than a lease and the broker's patience, or less. A statement that is late beyond
// the client's patience arrives all the same, when that has given up.
func (i *injection) delay(s *stage, at func(fault.Point, string)) error {
	late := 100*time.Millisecond + s.wait
	if s.long {
		late = lease + time.Second
	}
	statement, way := requestAt[s.Point], delayedAt[s.Point]
	switch {
	case s.variant%2 == 0 && statement.text != "":
		if s.long {
			late = readTimeout + 500*time.Millisecond
		}
		i.act = func(ctx context.Context, s *stage) error {
			defer close(i.armed.Forward)
			return sleep(ctx, late)
		}
		return i.arm(s, statement, mysqlproxy.Rule{Action: mysqlproxy.Stall})
	case s.variant%2 == 0 && way != nothing:
		return i.atBroker(s, way, at, func(ctx context.Context, s *stage, d direction) error {
			s.inject.wire.hold(d)
			if err := s.victim().resume(ctx); err != nil {
				return err
			}
			defer s.inject.wire.release()
			return sleep(ctx, late)
		})
	}
	at(s.Point, "delay="+late.String())
	return nil
}

// delayedAt is what is late on the broker's wire.
var delayedAt = map[fault.Point]direction{
	fault.RelayPublish: requests, fault.RelaySent: replies, fault.ConsumerAcked: requests,
}

// arm puts a proxy between the victim and its database.
func (i *injection) arm(s *stage, at statement, r mysqlproxy.Rule) (err error) {
	if at.text == "" {
		return fmt.Errorf("no statement is known for %s", s.Point)
	}
	if i.proxy, err = mysqlproxy.New(s.db.server.Addr()); err != nil {
		return err
	}
	r.Match, r.Commit, r.Nth = at.match, at.commit, s.nth
	if at == begin {
		r.Nth = 2 * s.nth // a request begins with a question, in a transaction of its own
	}
	i.armed = i.proxy.Arm(r)
	return nil
}

// brokerAct is what happens on the broker's wire while the victim stands before its point. It
// lets the victim go on.
type brokerAct func(context.Context, *stage, direction) error

// atBroker puts a proxy between the victim and the broker, and has the victim stop where
// that comes next which the wire is to do something about.
func (i *injection) atBroker(s *stage, d direction, at func(fault.Point, string), act brokerAct) (err error) {
	before := map[fault.Point]fault.Point{
		fault.RelayPublish:  fault.RelayPublish,
		fault.RelaySent:     fault.RelayPublish,
		fault.ConsumerAcked: fault.ConsumerCommitted,
	}[s.Point]
	if before == "" {
		return fmt.Errorf("no place on the broker's wire is known for %s", s.Point)
	}
	at(before, string(fault.Stop))
	i.act = func(ctx context.Context, s *stage) error { return act(ctx, s, d) }
	i.wire, err = newWire(s.broker.addr())
	return err
}

// lose lets what comes next disappear, and ends the connection.
func lose(ctx context.Context, s *stage, d direction) error {
	wire := s.inject.wire
	wire.lose(d)
	if err := s.victim().resume(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(hitBound)
	for wire.lost() < answerSize {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: nothing was lost on the broker's wire", errNotHit)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	if err := sleep(ctx, 200*time.Millisecond+s.wait); err != nil { // that it all gets lost
		return err
	}
	wire.cut()
	return nil
}

// await waits until the fault has begun.
func (i *injection) await(ctx context.Context, s *stage) error {
	victim := s.victim()
	if i.armed != nil {
		return victim.await(ctx, "at its statement", i.armed.Hit, hitBound)
	}
	return victim.await(ctx, "at its point", victim.hit, hitBound)
}

// zombie lets a COMMIT arrive after its connection was lost, or with dies its process, too.
func zombie(dies bool) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if dies {
			if err := kill(s.victim().proc.PID()); err != nil {
				return err
			}
		}
		if err := sleep(ctx, s.wait); err != nil {
			return err
		}
		close(s.inject.armed.Forward)
		select {
		case <-s.inject.armed.Done:
		case <-time.After(stopBound):
			return errors.New("the server did not answer the zombie COMMIT")
		}
		if dies {
			return s.replaceVictim(ctx)
		}
		return nil
	}
}

// standStill keeps the victim stopped past its lease, or past the broker's patience, and until
// others have done its work where there are any.
func standStill(ctx context.Context, s *stage) error {
	still := lease + 500*time.Millisecond
	switch {
	case s.role() == roleWriter:
		still = s.wait
	case s.role() == roleConsumer && s.Broker == "rabbitmq":
		still = 2 * redelivery // two heartbeats, and what the broker takes to look
	}
	if err := sleep(ctx, still); err != nil {
		return err
	}
	if s.role() == roleRelay && s.relays > 1 {
		if err := s.startRest(ctx, roleRelay); err != nil {
			return err
		}
		s.othersPublish(ctx)
	}
	return s.victim().resume(ctx)
}

// takenOver reports whether another relay has published an event of the victim's, and may
// not have marked it yet.
func (s *stage) takenOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	reach := s.reach(s.entries)
	return slices.ContainsFunc(s.entries, func(e entry) bool {
		return e.Kind == lineHanded && e.actor != s.victim().name &&
			slices.ContainsFunc(e.Events, func(id uuid.UUID) bool { return slices.Contains(reach, id) })
	})
}

// othersPublish waits until nothing is due any more, or, when the others are late with their marks,
// until one of them has taken over; and no longer than a takeover can take.
func (s *stage) othersPublish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 4*lease)
	defer cancel()
	for {
		left, err := s.unpublished(ctx)
		if err == nil && left == 0 || s.inject.others != "" && s.takenOver() || pause(ctx) != nil {
			return
		}
	}
}

func (i *injection) close() {
	if i.proxy != nil {
		i.proxy.Close()
		i.proxy = nil
	}
	if i.wire != nil {
		i.wire.close()
		i.wire = nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
