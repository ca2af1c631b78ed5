package main

func unit(test string) target     { return target{"runtime/outbox", test} }
func handover(test string) target { return target{"runtime/internal/delivery", test} }

// A transaction, its outcome, and what an error means.
var txMutants = []mutant{
	{
		name: "unknown counts as failed", file: "runtime/outbox/intx.go",
		old: "		return Unknown, &CommitUnknownError{Cause: err}", new: "		return RolledBack, &CommitUnknownError{Cause: err}",
		target: unit("^TestCommitOutcomes$"),
	},
	{
		name: "every COMMIT error is unknown", file: "runtime/outbox/intx.go",
		old: "	case db.Classify(err).Fault.RefusesCommit():", new: "	case false:",
		target: unit("^TestCommitOutcomes$"),
	},
	{
		name: "a poisoned transaction commits", file: "runtime/outbox/intx.go",
		old: "	tx.closeRows()\n	if err := tx.Err(); err != nil {\n		return RolledBack, err\n	}\n", new: "	tx.closeRows()\n",
		target: unit("^TestSwallowedErrorsPoisonTheTransaction$"),
	},
	{
		name: "statements go on after the error that ended the transaction", file: "runtime/outbox/tx.go",
		old: "	if err := t.Err(); err != nil {\n		return err\n	}\n	return refuseTransactionControl(query)", new: "	return refuseTransactionControl(query)",
		target: unit("^TestSwallowedErrorsPoisonTheTransaction$"),
	},
	{
		name: "an error in a result set is overlooked", file: "runtime/outbox/intx.go",
		old: "	tx.closeRows()\n	if err := tx.Err()", new: "	if err := tx.Err()",
		target: unit("^TestErrorInRowsLeftOpenPoisons$"),
	},
	{
		name: "COMMIT can be sent by hand", file: "runtime/outbox/tx.go",
		old: "	return refuseTransactionControl(query)", new: "	return nil",
		target: unit("^TestStatementsThatEndTheTransactionAreRefused$"),
	},
	{
		name: "a panic leaves the transaction open", file: "runtime/outbox/intx.go",
		old: "			_ = sqlTx.Rollback()\n		}\n	}()", new: "		}\n	}()",
		target: unit("^TestPanicRollsBack$"),
	},
	{
		name: "a failed writer's transaction can commit", file: "runtime/outbox/write.go",
		old: "		p.Poison(err)", new: "		_ = p",
		target: unit("^TestFailedWriterPoisonsTheTransaction$"),
	},
	{
		name: "the guard below database/sql lets a COMMIT through", file: "runtime/mysqldb/guard.go",
		old: "	if err := t.conn.err(); err != nil {\n		_ = t.Rollback()\n		return err\n	}\n	t.conn.inTx = false", new: "	t.conn.inTx = false",
		target: target{"internal/integration", "^(TestOverlookedDeadlockCommitsNothing|TestPreparedStatementAfterADeadlock)$"},
	},
	{
		name: "1213 is an error like any", file: "runtime/mysqlerr/mysqlerr.go",
		old: "	case erLockDeadlock, erCheckRead, erLockTableFull:", new: "	case erCheckRead, erLockTableFull:",
		target: target{"runtime/mysqlerr", "^TestFaults$"},
	},
	{
		name: "1020 is an error like any", file: "runtime/mysqlerr/mysqlerr.go",
		old: "	case erLockDeadlock, erCheckRead, erLockTableFull:", new: "	case erLockDeadlock, erLockTableFull:",
		target: target{"runtime/mysqlerr", "^TestFaults$"},
	},
	{
		name: "the constraint is the first quoted word", file: "runtime/mysqlerr/constraint.go",
		old: "	end := strings.LastIndexByte(message, '\\'')", new: "	message = message[strings.Index(message, \"for key\")+7:]\n	end := strings.LastIndexByte(message, '\\'')",
		target: target{"runtime/mysqlerr", "^TestConstraint$"},
	},
	{
		name: "a wake without a commit", file: "runtime/outbox/intx.go",
		old: "	if outcome != RolledBack && tx.hasEvents() {", new: "	if tx.hasEvents() {",
		target: unit("^TestInTxWakes$"),
	},
	{
		name: "a wake for transactions without an event", file: "runtime/outbox/intx.go",
		old: "	if outcome != RolledBack && tx.hasEvents() {", new: "	if outcome != RolledBack {",
		target: unit("^TestInTxWakes$"),
	},
}

// The relay.
var relayMutants = []mutant{
	{
		name: "what a broker answered not at all counts as an attempt", file: "runtime/outbox/relay_publish.go",
		old: "		o.Kind = OutcomeUnknown\n", new: "		o.Kind, o.Failure = OutcomeRetry, FailureFailed\n",
		target: unit("^TestUnknownOutcomeIsLeftToItsLease$"),
	},
	{
		name: "an outage counts as an attempt", file: "runtime/outbox/relay_publish.go",
		old: "		o.Kind, o.Backoff = OutcomeReleased, r.cfg.OutageBackoffMax", new: "		o.Kind, o.Failure = OutcomeRetry, FailureFailed",
		target: unit("^TestHalfAnHourWithoutABroker$"),
	},
	{
		name: "a rejected event is tried again", file: "runtime/outbox/relay_publish.go",
		old: "	case FailureRejected:\n		o.Kind, o.Failure, o.Reason = OutcomeDead, kind, reason(err)", new: "	case FailureRejected:\n		o.Kind, o.Failure, o.Reason = OutcomeRetry, kind, reason(err)",
		target: unit("^TestRejectedEventIsDeadAtOnce$"),
	},
	{
		name: "an event never dies", file: "runtime/outbox/relay_publish.go",
		old: "		if attempt >= r.cfg.MaxAttempts {", new: "		if false && attempt >= r.cfg.MaxAttempts {",
		target: unit("^TestFailedEventIsRetriedThenDead$"),
	},
	{
		name: "an outage doesn't pause the relay", file: "runtime/outbox/relay_claim.go",
		old: "		case pause > 0:\n			sleep(ctx, pause)\n", new: "		case pause > 0 && false:\n",
		target: unit("^(TestHalfAnHourWithoutABroker|TestOneOutageOnePause)$"),
	},
	{
		name: "too few results confirm the rest", file: "runtime/outbox/relay_publish.go",
		old: "		return slices.Repeat([]error{err}, len(messages))", new: "		_ = err\n		return make([]error, len(messages))",
		target: unit("^TestWrongNumberOfResultsIsUnknown$"),
	},
	{
		name: "a publish begins with too little lease", file: "runtime/outbox/relay_lease.go",
		old: "	if b.mayPublish(r.cfg.PublishTimeout) {\n		return true\n	}\n	left", new: "	if b != nil {\n		return true\n	}\n	left",
		target: unit("^TestTooLittleLeaseIsGivenBack$"),
	},
	{
		name: "a stop cuts a publish short", file: "runtime/outbox/relay_publish.go",
		old: "context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)", new: "context.WithTimeout(ctx, r.cfg.PublishTimeout)",
		target: unit("^TestCleanStop$"),
	},
	{
		name: "a stop leaves its leases", file: "runtime/outbox/relay.go",
		old: "	if err := r.store.Release(run.grace, run.owner); err != nil {", new: "	if err := run.grace.Err(); err != nil {",
		target: unit("^TestCleanStop$"),
	},
	{
		name: "an invalid row holds up the others", file: "runtime/outbox/relay_publish.go",
		old: "				Key: e.Key, Kind: OutcomeDead, Failure: FailureRejected", new: "				Key: e.Key, Kind: OutcomeReleased, Failure: FailureRejected",
		target: unit("^TestInvalidRowIsBuriedAndDoesNotHoldUpOthers$"),
	},
	{
		name: "a settlement is tried once", file: "runtime/outbox/relay_settle.go",
		old: "	if left <= 0 {\n		return false\n	}", new: "	if left <= 0 || failures > 0 {\n		return false\n	}",
		target: unit("^TestSettleIsTriedAgain$"),
	},
	{
		name: "events of a probed outage go out in full batches", file: "runtime/outbox/relay_claim.go",
		old: "	if probe {\n		limit = 1\n	}", new: "	if probe {\n		limit *= 1\n	}",
		target: unit("^(TestHalfAnHourWithoutABroker|TestOneOutageOnePause|TestUnavailableEventsDoNotStarveOthers)$"),
	},
}

// The consumer, and what stands between it and a broker.
var consumerMutants = []mutant{
	{
		name: "any 1062 is a duplicate", file: "runtime/outbox/consumerattempt.go",
		old: "	return info.Fault == FaultDuplicate && info.Constraint == c.spec.Constraint", new: "	return info.Fault == FaultDuplicate",
		target: unit("^TestOnlyOurConstraintIsADuplicate$"),
	},
	{
		name: "1062 is ours when its message contains our constraint's name", file: "runtime/mysqlerr/constraint.go",
		old: "	end := strings.LastIndexByte(message, '\\'')\n", new: "	if strings.Contains(message, \"uq_consumed_event_identity\") {\n		return \"uq_consumed_event_identity\"\n	}\n	end := strings.LastIndexByte(message, '\\'')\n",
		target: target{"runtime/mysqlerr", "^TestConstraint$"},
	},
	{
		name: "a duplicate is a failure", file: "runtime/outbox/consumerattempt.go",
		old: "	case a.handling == Duplicate:\n		a.err = nil", new: "	case a.handling == Duplicate:",
		target: target{"internal/integration", "^TestTenDeliveriesOneEffect$"},
	},
	{
		name: "the effect comes without a dedup row", file: "runtime/outbox/consumerattempt.go",
		old: "	if err := c.insertDedup(ctx, tx, e.ID.String(), a.handling); err != nil {", new: "	if err := error(nil); err != nil {",
		target: unit("^TestConsumerCommitsDedupAndEffectTogether$"),
	},
	{
		name: "a lost reply to a consumer's COMMIT is a success", file: "runtime/outbox/consumerattempt.go",
		old: "	switch {\n	case a.handling == Duplicate:", new: "	if errors.As(a.err, new(*CommitUnknownError)) {\n		a.err = nil\n	}\n	switch {\n	case a.handling == Duplicate:",
		target: unit("^TestCommitUnknownOfAConsumerIsAnError$"),
	},
	{
		name: "the database being away is the event's fault", file: "runtime/outbox/consumerattempt.go",
		old: "	case !a.entered:\n		return FailureUnavailable", new: "	case !a.entered:\n		return FailureFailed",
		target: unit("^TestWhatIsCounted$"),
	},
	{
		name: "a connection lost under the handler is the event's fault", file: "runtime/outbox/consumerattempt.go",
		old: "	case a.poison != nil && c.losesDatabase(a.poison):", new: "	case fault == FaultReadOnly:",
		target: unit("^TestWhatIsCounted$"),
	},
	{
		name: "an event of an unknown type is dropped", file: "runtime/outbox/consumer.go",
		old: "		return c.park(ctx, e, kind, err)\n	}\n	a := c.attempts", new: "		_ = kind\n		return Skipped, nil\n	}\n	a := c.attempts",
		target: unit("^TestParkedAtOnce$"),
	},
	{
		name: "a stale event is applied", file: "runtime/outbox/consumerattempt.go",
		old: "		if e.AggregateVersion < last {", new: "		if e.AggregateVersion < last-1<<40 {",
		target: unit("^TestStaleEventIsSkipped$"),
	},
	{
		name: "an event of the same version is stale", file: "runtime/outbox/consumerattempt.go",
		old: "		if e.AggregateVersion < last {", new: "		if e.AggregateVersion <= last {",
		target: target{"internal/integration", "^TestEventsOfOneVersion$"},
	},
	{
		name: "acknowledged before it is handled", file: "runtime/internal/delivery/engine.go",
		old: "	for n := 1; ; n++ {\n		handled, err := e.handle(h)", new: "	for n := 1; ; n++ {\n		h.Ack(e.ctx)\n		handled, err := e.handle(h)",
		target: handover("^TestSerialWithinAnAggregate$"),
	},
	{
		name: "two events of an aggregate at once", file: "runtime/internal/delivery/engine.go",
		old: "	if !busy {\n		e.working.Go(func() { e.work(key) })\n	}", new: "	_ = busy\n	e.working.Go(func() { e.work(key) })",
		target: handover("^TestSerialWithinAnAggregate$"),
	},
	{
		name: "a failed event is overtaken", file: "runtime/internal/delivery/engine.go",
		old: "			e.guard.returned(key, h, after) // its redelivery waits in this lane\n", new: "",
		target: handover("^TestFollowersAreHeldBack$"),
	},
	{
		name: "messages are given back while the database is away", file: "runtime/internal/delivery/engine.go",
		old: "if err = e.call(h); err == nil || !outbox.RedeliveryOf(err).Pause {", new: "if err = e.call(h); err == nil || e.slots != nil {",
		target: handover("^TestPause$"),
	},
	{
		name: "a handler's panic ends the process", file: "runtime/outbox/guarded.go",
		old: "			if !returned {\n				err = NewPanicError(recover(), debug.Stack())\n			}", new: "			_, _ = debug.Stack, returned",
		target: unit("^TestPanicOfAHandler$"),
	},
	{
		name: "the reason of a parked event holds values", file: "runtime/outbox/consumerpark.go",
		old: "	reason := shorten(reasonOf(c.db, cause), maxParkedReason)\n	err = c.book(ctx, func(ctx context.Context, tx *Tx) error {\n		h = NotHandled\n		id :=", new: "	reason := shorten(cause.Error(), maxParkedReason)\n	err = c.book(ctx, func(ctx context.Context, tx *Tx) error {\n		h = NotHandled\n		id :=",
		target: target{"internal/integration", "^TestParkedReasonHoldsNoValues$"},
	},
	{
		name: "a header can be a broker's command", file: "runtime/outbox/headers.go",
		old: "		if strings.HasPrefix(name, prefix) {", new: "		if name == prefix {",
		target: target{"runtime/broker/rabbitmq", "^TestEncodeRefuses$"},
	},
	{
		name: "Verify doesn't blame a handler that swallows an error", file: "runtime/outboxtest/verify_errors.go",
		old: "	i.expect(count > 0 || err != nil, problem{", new: "	i.expect(true, problem{",
		target: target{"internal/integration", "^TestVerifySwallowed$/^every_error$"},
	},
	{
		name: "Verify doesn't look for transactions that were left open", file: "runtime/outboxtest/verify_leaks.go",
		old: "	if n == 0 {\n		return\n	}\n	during", new: "	if n >= 0 {\n		return\n	}\n	during",
		target: target{"internal/integration", "^TestVerifyBroken$/^a_writer_leaves_its_transaction_open$"},
	},
}
