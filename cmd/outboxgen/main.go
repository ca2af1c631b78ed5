// Command outboxgen turns events.yaml into a typed transactional outbox.
package main

import (
	"os"

	sqlc "github.com/sqlc-dev/sqlc/pkg/cli"

	"github.com/outboxgen/outboxgen/internal/cli"
	"github.com/outboxgen/outboxgen/internal/sqlcrun"
)

func main() {
	// sqlc ends its process on errors, so it gets one of its own: see sqlcrun.
	// Only this package links it; tests of the others don't compile it.
	if len(os.Args) > 1 && os.Args[1] == sqlcrun.ChildArg {
		ignoreTerminal() // the parent hears of it too, ends the child, and says why
		os.Exit(sqlc.Run(os.Args[2:]))
	}
	ctx, stop := untilAskedToEnd()
	code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
