package main

func integration(test string) target { return target{"internal/integration", test} }

// What people mend by hand.
var opsMutants = []mutant{
	{
		name: "ops: an older death is redriven", file: "internal/ops/dead.go",
		old: "is.failedUs != was.failedUs || is.Attempts != was.Attempts", new: "is.Attempts < 0 || was.Attempts < 0",
		target: integration("^TestRedriveOfAnOlderDeath$"),
	},
	{
		name: "ops: dead events are read without a lock", file: "internal/ops/dead.go",
		old: "ids, \"FOR UPDATE\", func", new: "ids, \"\", func",
		target: integration("^TestTwoPeopleRedriveTheSameDeadEvents$"),
	},
	{
		name: "ops: a redriven event goes behind the others", file: "internal/ops/dead.go",
		old: "attempts = 0, next_attempt_at = '1970-01-01 00:00:00'", new: "attempts = 0, available_at = \" + now + \", next_attempt_at = '1970-01-01 00:00:00'",
		target: integration("^TestRedriveKeepsTheOrder$"),
	},
	{
		name: "ops: the audit is not written", file: "internal/ops/mend.go",
		old: "	if len(records) == 0 {", new: "	if len(records) < 1<<30 {",
		target: integration("^TestTwoPeopleRedriveTheSameDeadEvents$"),
	},
	{
		name: "ops: parked events are redriven as they come", file: "internal/ops/parked.go",
		old: "	inOrder(plan.Events)\n", new: "",
		target: integration("^TestTwoPeopleRedriveTheSameParkedEvents$"),
	},
	{
		name: "ops: a discarded event's dedup row goes too", file: "internal/ops/parked.go",
		old: "\"UPDATE {consumed_event} SET outcome = 5 WHERE", new: "\"DELETE FROM {consumed_event} WHERE",
		target: integration("^TestDiscardedParkedEvent$"),
	},
	{
		name: "redriver: a redrive without an end is tried for ever", file: "runtime/outbox/redriver.go",
		old: "row.Tries >= redriveTries", new: "row.Tries >= 1<<20",
		target: integration("^TestRedriveThatEndsItsProcesses$"),
	},
	{
		name: "lanes: a pause is not looked for", file: "runtime/lanelease/claim.go",
		old: "	if hold != nil {", new: "	if hold != nil && c.Limit < 0 {",
		target: integration("^(TestPauseStopsClaims|TestRelayObeysAPause)$"),
	},
	{
		name: "rows: a pause is not looked for", file: "runtime/rowlease/store.go",
		old: "	if hold != nil {", new: "	if hold != nil && c.Limit < 0 {",
		target: integration("^(TestPauseStopsClaims|TestRelayObeysAPause)$"),
	},
}
