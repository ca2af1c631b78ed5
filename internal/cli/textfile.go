package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// writeTextfile writes the counts of a comparison as node_exporter's textfile collector reads
// them: at once, so that it never sees half of them.
// (https://github.com/prometheus/node_exporter#textfile-collector)
func writeTextfile(name string, report *ops.ReconcileReport, now time.Time) (err error) {
	var b bytes.Buffer
	b.WriteString("# HELP outbox_reconcile_difference Differences between business rows, events and consumers at the last run of outboxgen reconcile.\n")
	b.WriteString("# TYPE outbox_reconcile_difference gauge\n")
	for _, c := range ops.Checks() {
		fmt.Fprintf(&b, "outbox_reconcile_difference{check=%q} %d\n", c, report.Counts[c])
	}
	b.WriteString("# HELP outbox_reconcile_last_run_timestamp_seconds When outboxgen reconcile last ran to its end.\n")
	b.WriteString("# TYPE outbox_reconcile_last_run_timestamp_seconds gauge\n")
	fmt.Fprintf(&b, "outbox_reconcile_last_run_timestamp_seconds %d\n", now.Unix())

	problem := func(err error) error {
		return hinted{fmt.Errorf("write --prometheus: %w", err), "name a file in a folder that is there, and that this user may write to"}
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // the collector reads *.prom alone
	if err != nil {
		return problem(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
			err = problem(err)
		}
	}()
	_, err = temporary.Write(b.Bytes())
	if err == nil {
		err = temporary.Chmod(0o644) // another user reads it
	}
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
