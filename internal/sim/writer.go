package sim

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// ownSchema has the service's tables and the consumers'.
var ownSchema = []string{
	`CREATE TABLE order_head (order_id BIGINT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (order_id))`,
	`CREATE TABLE orders (
  id BIGINT NOT NULL AUTO_INCREMENT, tenant_id BIGINT NOT NULL, request_id VARCHAR(64) NOT NULL,
  acceptance_event_id CHAR(36) NOT NULL, created_at DATETIME(6) NOT NULL,
  PRIMARY KEY (id), CONSTRAINT uq_orders_request UNIQUE (tenant_id, request_id))`,
	`CREATE TABLE effect (id BIGINT NOT NULL AUTO_INCREMENT, consumer VARCHAR(64) NOT NULL, event_id CHAR(36) NOT NULL, payload LONGBLOB NOT NULL, PRIMARY KEY (id))`,
	`CREATE TABLE effect_slot (slot VARCHAR(255) NOT NULL, PRIMARY KEY (slot))`,
}

// The service's statements. A request locks its aggregate's row, so that versions have an order.
const (
	touchHead = `-- name: TouchHead :exec
INSERT INTO order_head (order_id, version) VALUES (?, 1) ON DUPLICATE KEY UPDATE version = version + 1`
	readHead = `-- name: ReadHead :one
SELECT version FROM order_head WHERE order_id = ?`
	insertOrder = `-- name: InsertOrder :exec
INSERT INTO orders (tenant_id, request_id, acceptance_event_id, created_at) VALUES (?, ?, ?, UTC_TIMESTAMP())`
)

const requestConstraint = "uq_orders_request"

var errBusiness = errors.New("a business error")

// journal is what a writer's processes have to do, and have done.
type journal struct {
	w    *world
	todo []int
}

func newJournal(w *world, writer int) *journal {
	j := &journal{w: w}
	for i, r := range w.plan.Requests {
		if r.Writer == writer {
			j.todo = append(j.todo, i)
		}
	}
	return j
}

// run does what is to be done, in the order of the plan.
func (j *journal) run(a *actor) {
	for len(j.todo) > 0 {
		if !sleep(a.ctx, time.Until(j.w.begin.Add(j.w.plan.Requests[j.todo[0]].At))) {
			return
		}
		done := j.do(a, j.todo[0])
		switch {
		case a.goOn() != nil || a.ctx.Err() != nil:
			return
		case done:
			j.todo = j.todo[1:]
		case !sleep(a.ctx, 300*time.Millisecond):
			return
		}
	}
}

// do tries a request once, and reports whether it is known what became of it.
func (j *journal) do(a *actor, i int) bool {
	r := j.w.plan.Requests[i]
	id := requestID(i)
	try := j.w.rec.try(history.Request{ID: id, EventID: eventID(i), Outcome: history.Unknown})
	outcome, err := outbox.InTx(a.ctx, a.db, func(tx *outbox.Tx) error { return j.accept(a.ctx, tx, i) })
	if a.isDead() {
		return false // nobody was told
	}
	switch outcome {
	case outbox.Committed:
		try.told(history.Committed)
		return true
	case outbox.RolledBack:
		try.told(history.RolledBack)
		info := a.db.Classify(err)
		again := info.Fault == outbox.FaultDuplicate && info.Constraint == requestConstraint
		return again || errors.Is(err, errBusiness)
	}
	if r.Repeats {
		return false
	}
	found, err := orderevents.ReconcileOrderAccepted(a.ctx, a.db, tenant, id)
	if err != nil || a.isDead() {
		return false // still unknown: the repeat finds out
	}
	try.reconciled(found.Found)
	return found.Found
}

func requestID(i int) string { return fmt.Sprintf("request-%d", i) }

// accept is the business operation.
func (j *journal) accept(ctx context.Context, tx *outbox.Tx, i int) error {
	r := j.w.plan.Requests[i]
	if _, err := tx.ExecContext(ctx, touchHead, r.Aggregate); err != nil {
		return err
	}
	var version int64
	if err := tx.QueryRowContext(ctx, readHead, r.Aggregate).Scan(&version); err != nil {
		return err
	}
	if r.Also != 0 && r.Also != r.Aggregate {
		if _, err := tx.ExecContext(ctx, touchHead, r.Also); err != nil && !r.Careless {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, insertOrder, int64(tenant), requestID(i), eventID(i).String()); err != nil {
		return err
	}
	payload, err := j.w.variant.write(ctx, tx, eventID(i), r.Aggregate, version)
	if err != nil {
		return err
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	j.w.rec.written(history.Written{EventID: eventID(i), Type: "order.accepted", Aggregate: aggregateOf(r.Aggregate), Version: version, Payload: text})
	if r.Fate == Fails {
		return errBusiness
	}
	return nil
}

func aggregateOf(order int64) string { return fmt.Sprintf("order/%d", order) }

// lookUp asks for events now and then.
func (w *world) lookUp() {
	a := w.newActor("reader")
	defer close(a.ended)
	for n := uint64(1); sleep(w.ctx, 1500*time.Millisecond); n++ {
		if w.isHealed() {
			return
		}
		w.ask(a, int(w.mix(n, "lookup")%uint64(len(w.plan.Requests))), false)
	}
}

func (w *world) ask(a *actor, request int, final bool) {
	s, err := w.variant.lookup(a.ctx, a.db, eventID(request))
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		w.rec.answered(history.Answer{EventID: eventID(request), State: s.State, Final: final})
	}
}
