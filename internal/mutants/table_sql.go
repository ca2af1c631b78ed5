package main

// The suite of every store, on one database, with the usual settings.
var (
	storeOfLanes = target{"internal/integration", "^TestStore$/^MySQL$/^lanes$/^default$"}
	storeOfRows  = target{"internal/integration", "^TestStore$/^MySQL$/^rows$/^default$"}
)

const (
	lanesSQL = "gen/orderevents/internal/outboxdb/"
	rowsSQL  = "internal/variants/rows/gen/orderevents/internal/outboxdb/"
)

// What the statements and the stores are there for.
var sqlMutants = []mutant{
	{
		name: "lanes: a mark without the owner", file: "runtime/lanelease/settle.go",
		old: "		ours[l.Lane] = l.LeaseOwner == owner && ", new: "		_ = owner\n		ours[l.Lane] = ",
		target: storeOfLanes,
	},
	{
		name: "lanes: a mark without the lease's version", file: "runtime/lanelease/settle.go",
		old: " && l.LeaseVersion == lease.lanes[l.Lane]", new: "",
		target: storeOfLanes,
	},
	{
		name: "rows: a mark without the owner", file: rowsSQL + "claim.sql.go",
		old:    "SET status = 2,\n    published_at = UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND\nWHERE event_id IN (/*SLICE:event_ids*/?)\n  AND status = 0 AND lease_owner = ? AND lease_token = ?",
		new:    "SET status = 2,\n    published_at = UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND\nWHERE event_id IN (/*SLICE:event_ids*/?)\n  AND status = 0 AND (lease_owner = ? OR TRUE) AND lease_token = ?",
		target: storeOfRows,
	},
	{
		name: "rows: a mark without the lease's token", file: rowsSQL + "claim.sql.go",
		old:    "SET status = 2,\n    published_at = UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND\nWHERE event_id IN (/*SLICE:event_ids*/?)\n  AND status = 0 AND lease_owner = ? AND lease_token = ?",
		new:    "SET status = 2,\n    published_at = UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND\nWHERE event_id IN (/*SLICE:event_ids*/?)\n  AND status = 0 AND lease_owner = ? AND (lease_token = ? OR TRUE)",
		target: storeOfRows,
	},
	{
		name: "a claim that takes what others have locked", file: rowsSQL + "claim.sql.go",
		old: "LIMIT ?\nFOR UPDATE SKIP LOCKED", new: "LIMIT ?",
		target: storeOfRows,
	},
	{
		name: "claims at REPEATABLE READ", file: "runtime/internal/leasing/relays.go",
		old: "sql.LevelReadCommitted", new: "sql.LevelRepeatableRead",
		target: target{"internal/integration", "^(TestClaimLocksOnlyItsBatch|TestRelayMakesNoWriterWait)$"},
	},
	{
		name: "Reconcile reads without a lock", file: lanesSQL + "reconcile.sql.go",
		old: "LIMIT 2\nLOCK IN SHARE MODE", new: "LIMIT 2",
		target: target{"internal/integration", "^TestReconcileNeverSaysAbsentOfAnOpenTransaction$"},
	},
	{
		name: "the purge deletes events of any status", file: lanesSQL + "purge.sql.go",
		old: "  AND e.status = 2\n  AND e.published_at < ", new: "  AND COALESCE(e.published_at, '2000-01-01') < ",
		target: target{"internal/integration", "^TestPurge(Delete|SmallDeletes)Look(s)?Again$"},
	},
	{
		name: "the purge looks for events of any status", file: lanesSQL + "purge.sql.go",
		old: "FROM outbox_event FORCE INDEX (ix_outbox_event_claim)\nWHERE status = 2\n  AND lane = ?", new: "FROM outbox_event FORCE INDEX (ix_outbox_event_claim)\nWHERE status = 0\n  AND lane = ?",
		target: target{"internal/integration", "^TestPurgeEvents$"},
	},
	{
		name: "dedup rows of parked events are purged", file: lanesSQL + "purge.sql.go",
		old: "  AND c.outcome <> 4\n", new: "",
		target: target{"internal/integration", "^TestPurgeKeepsDedupRowsOfParkedEvents$"},
	},
	{
		name: "lanes: blocked aggregates are not passed over", file: "runtime/lanelease/read.go",
		old: "			passedOver = true\n			continue\n", new: "			passedOver = true\n",
		target: storeOfLanes,
	},
	{
		name: "lanes: two batches of one lane", file: "runtime/lanelease/read.go",
		old: "		l.busy = true\n", new: "",
		target: storeOfLanes,
	},
	{
		name: "lanes: lost lanes are kept", file: "runtime/lanelease/lanes.go",
		old: "		if l != nil && (d.LeaseOwner != r.id || d.LeaseVersion != l.version) {\n			delete(r.lanes, d.Lane) // lost\n			l = nil\n		}\n", new: "",
		target: storeOfLanes,
	},
	{
		name: "lanes: what was leased isn't counted", file: "runtime/lanelease/settle.go",
		old: "	s.result.Published -= len(lost)\n", new: "",
		target: storeOfLanes,
	},
}
