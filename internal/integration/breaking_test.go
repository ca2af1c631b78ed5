package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/cli"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Rows as the runtime writes and parks them are found by outboxgen breaking --dsn, and
// nothing is said of those that the new events.yaml reads.
func TestBreakingFindsWaitingRows(t *testing.T) {
	eachConsumer(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		ids := writeEvents(t, db, 2)
		refused := report(db, func(context.Context, *outbox.Tx, string) error { return outbox.Permanent(errors.New("refused")) })
		parked := envelope(t)
		ends(t, refused, parked, outbox.Parked)

		src, err := os.ReadFile("../../events.yaml")
		if err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(t.TempDir(), "events.yaml")
		breaking := func(edits ...string) (int, string) {
			t.Helper()
			if err := os.WriteFile(config, []byte(strings.NewReplacer(edits...).Replace(string(src))), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, said bytes.Buffer
			code := cli.Main(t.Context(), []string{"breaking", "-f", config, "--dsn", server.DSN}, &out, &said)
			return code, said.String()
		}
		if code, said := breaking(); code != 0 {
			t.Errorf("with the same events.yaml: exit code %d\n%s", code, said)
		}
		code, said := breaking("      2:\n", "      3:\n", "  sales-report:", "  bookkeeping:")
		if code != 1 {
			t.Errorf("exit code %d", code)
		}
		for _, want := range []string{
			fmt.Sprintf(`version 2 of "order.accepted" is needed by events that wait: 2 pending (%s, %s) [rows-waiting]`, ids[0], ids[1]),
			fmt.Sprintf(`the consumer "sales-report" is needed by events that wait: 1 parked (%s) [events-parked]`, parked.ID),
		} {
			if !strings.Contains(said, want) {
				t.Errorf("no %s in\n%s", want, said)
			}
		}
		code, said = breaking("      2:\n", "      3:\n")
		if want := fmt.Sprintf(`version 2 of "order.accepted" is needed by events that wait: 1 parked (%s) [events-parked]`, parked.ID); code != 1 || !strings.Contains(said, want) {
			t.Errorf("exit code %d, no %s in\n%s", code, want, said)
		}
	})
}
