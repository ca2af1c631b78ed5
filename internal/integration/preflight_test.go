package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/mysqlproxy"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// With statement-based logging a claim can't work: InnoDB refuses it at READ
// COMMITTED (error 1665). NewRelay says so instead of a loop of failed claims.
func TestStatementBasedBinlogIsRefused(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		if _, err := outbox.NewRelay(k.newStore(db), &ledger{}, nil); err != nil {
			t.Errorf("a sound database is refused: %v", err)
		}
		statement := open(t, via(t, server, "", func(c *mysql.Config) {
			c.Params = map[string]string{"binlog_format": "'STATEMENT'"}
		}))
		_, err := outbox.NewRelay(k.newStore(statement), &ledger{}, nil)
		var unfit *outbox.UnfitError
		if !errors.As(err, &unfit) || !strings.Contains(unfit.Reason, "binlog_format") {
			t.Errorf("got %v, want binlog_format refused", err)
		}
		if n := count(t, db, "outbox_relay"); n != 0 {
			t.Errorf("the check left %d rows behind", n)
		}
	})
}

// A database that is away when the relay is made is no reason not to make it.
func TestRelayWaitsForADatabaseThatIsAway(t *testing.T) {
	eachKind(t, keptKinds, func(t *testing.T, k kind, server dbtest.Database, db *outbox.DB) {
		ids := k.writeSeries(t, db, 3, 2)
		proxy := mysqlproxy.Start(t, server.Addr)
		fault := proxy.At(mysqlproxy.CutRequest, mysqlproxy.Has("binlog_format"))
		broker := &ledger{}
		relay := startRelay(t, k.newStore(open(t, via(t, server, proxy.Addr(), nil))), broker, outbox.RelayConfig{})
		select {
		case <-fault.Hit:
		case <-time.After(20 * time.Second):
			t.Fatal("the check was not cut: the fault did not happen")
		}
		awaitPublished(t, db)
		relay.checkCalm(t, db, len(ids), warningOf["check"])
		if repeats := broker.check(t, k, ids); repeats > 0 {
			t.Errorf("%d events were published again", repeats)
		}
	})
}
