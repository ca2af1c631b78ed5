package main

import "context"

// runbook is one of docs/operations.md: its fault, its commands, and what is left.
type runbook struct {
	name   string
	broker string // the only one that it is for
	bare   bool   // begins without tables and processes
	do     func(context.Context, *world) error
}

var runbooks = []runbook{
	{name: "backlog-grows: the relays died", do: relaysDied},
	{name: "backlog-grows: a relay is frozen", do: relayFrozen},
	{name: "backlog-grows: somebody paused the claims", do: pauseForgotten},
	{name: "broker-down", do: brokerDown},
	{name: "poison-message: parked", do: parkedEvents},
	{name: "poison-message: dead, too large", broker: "nats", do: deadTooLarge},
	{name: "poison-message: dead, unroutable", broker: "rabbitmq", do: deadUnroutable},
	{name: "duplicate-storm: a relay frozen beyond its lease", broker: "nats", do: frozenWhilePublishing},
	{name: "duplicate-storm: confirms come too late", broker: "rabbitmq", do: alarm},
	{name: "duplicate-storm: dedup rows deleted", do: dedupRowsDeleted},
	{name: "lost-event-suspicion: rows deleted by hand", do: rowsDeleted},
	{name: "rollback: an older build on the new tables", do: olderBuild},
	{name: "rollback: the new build on the old tables", bare: true, do: oldTables},
	{name: "restore: the whole database", do: restoreAll},
	{name: "restore: a consumer's tables", do: restoreConsumers},
	{name: "bigger-table: another ordering and back", do: otherOrdering},
	{name: "least-privilege", bare: true, do: leastPrivilege},
	{name: "deploy: pause and resume", do: deploy},
}
