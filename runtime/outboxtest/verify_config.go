package outboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/record"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Config says what [Verify] works on.
type Config struct {
	// DSN names a private, empty database, such as one of [ScratchDatabase], over TCP and without
	// TLS: Verify reads what its connections say. Nobody else may write to it meanwhile. Required.
	DSN string

	// Schema are statements that are run first, such as the generated Schema() and your own
	// tables. Defaults to none.
	Schema []string

	// Write does the business operation of a request with its one event, as your service
	// does it, and says how it ended, as outbox.InTx does: Committed without an error,
	// RolledBack only when nothing of it can be left, Unknown otherwise. It is called with
	// a db whose connections break. The same Request comes again when its outcome was Unknown, and
	// once more when it is done already: it must then not be done a second time, and may answer
	// Committed, or RolledBack with the error of the unique key on its id. Required.
	Write func(ctx context.Context, db *outbox.DB, r Request) (outbox.Outcome, error)

	// Business is a query for all business rows: request id and event id, such as
	// "SELECT request_id, acceptance_event_id FROM orders". It is held against the first request,
	// which has no fault. Required.
	Business string

	// Refused is a business operation that must fail, such as an order for what is sold out:
	// it must leave neither its row nor an event. Defaults to none.
	Refused func(ctx context.Context, db *outbox.DB, r Request) error

	// Reconcile is the generated function, or your own, that tells what became of a request
	// whose outcome is Unknown. Defaults to none: then the request is repeated.
	Reconcile func(ctx context.Context, db *outbox.DB, r Request) (outbox.Reconciled, error)

	// NewStore is the generated function. Required.
	NewStore func(db *outbox.DB) outbox.Store

	// Consumers are those that handle the event. At least one.
	Consumers []Consumer

	// Publisher and Subscribe are a broker of yours, both or neither. Defaults to a
	// [Broker].
	Publisher outbox.Publisher
	Subscribe func(ctx context.Context, h outbox.Handler) error

	// Broker and Client name your broker and its client with their versions, for the record.
	// Default to "memory" and "none".
	Broker, Client string

	// Private are values that Write puts into private fields: they must not be in
	// logs, errors or the record. Defaults to none.
	Private []string

	// Lease is how long a relay's claim lasts; at least 1 s. Longer is safer on a slow
	// machine. Defaults to 3 s.
	Lease time.Duration

	// Patience is how long is waited for anything; longer than the consumers' `retry.backoff`.
	// Defaults to 30 s, and at least four leases.
	Patience time.Duration

	// Record is the file that the record goes to. Defaults to
	// repeatable-delivery-verification.yaml in the test's folder.
	Record string

	// Application is your service with its version, for the record. Defaults to the module
	// under test with its commit.
	Application string
}

// Consumer is a consumer as [Verify] runs it.
type Consumer struct {
	// New makes the handler on a db whose connections break: the generated constructor with
	// your handler. Required.
	New func(db *outbox.DB) outbox.Handler

	// Effects counts how often the event of a request had its effect in the database: 0 or 1,
	// when all is well. It is held against the first request, which has no fault. Required.
	Effects func(ctx context.Context, db *outbox.DB, r Request) (int, error)
}

const minLease = time.Second

func (c Config) withDefaults() (Config, error) {
	c.Lease = cmp.Or(c.Lease, 3*time.Second)
	c.Patience = cmp.Or(c.Patience, max(30*time.Second, 4*c.Lease))
	c.Record = cmp.Or(c.Record, record.FileName)
	c.Broker, c.Client = cmp.Or(c.Broker, "memory"), cmp.Or(c.Client, "none")
	return c, c.validate()
}

func (c Config) validate() error {
	var problems []error
	require := func(ok bool, text string) {
		if !ok {
			problems = append(problems, errors.New(text))
		}
	}
	require(c.Write != nil, "Write is missing")
	require(c.Business != "", "Business, the query for business rows, is missing")
	require(c.NewStore != nil, "NewStore is missing")
	require(len(c.Consumers) > 0, "there are no Consumers")
	for i, consumer := range c.Consumers {
		require(consumer.New != nil && consumer.Effects != nil, fmt.Sprintf("Consumers[%d] lacks New or Effects", i))
	}
	require((c.Publisher == nil) == (c.Subscribe == nil), "Publisher and Subscribe go together")
	require(!slices.Contains(c.Private, ""), "a value of Private is empty")
	require(c.Lease >= minLease, fmt.Sprintf("Lease is below %v", minLease))
	require(c.Patience > 2*c.Lease, "Patience is not above two leases")
	cfg, err := c.driver()
	switch {
	case err != nil:
		problems = append(problems, err)
	case cfg.Net != "tcp" || cfg.TLSConfig != "" && cfg.TLSConfig != "false":
		problems = append(problems, errors.New("the DSN must be for TCP without TLS, since a proxy reads along"))
	case cfg.DBName == "":
		problems = append(problems, errors.New("the DSN names no database"))
	}
	return errors.Join(problems...)
}

// driver is the DSN with what the proxy and [mysqldb.Open] need.
func (c Config) driver() (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(c.DSN)
	if err != nil { // the driver's error may quote the password
		return nil, errors.New("the DSN is not of the form user:password@tcp(host:port)/database")
	}
	// Statements with their values in them, so that the proxy sees them.
	cfg.InterpolateParams = true
	cfg.ReadTimeout, cfg.WriteTimeout = cmp.Or(cfg.ReadTimeout, 10*time.Second), cmp.Or(cfg.WriteTimeout, 10*time.Second)
	if err := cfg.Apply(mysql.EnableCompression(false)); err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{} // it would tell of each connection that was broken
	return cfg, nil
}

// open opens a pool; with dial, whose connections come from there.
func (c Config) open(dial func(context.Context) (net.Conn, error)) (*outbox.DB, error) {
	cfg, err := c.driver()
	if err != nil {
		return nil, err
	}
	if dial != nil {
		cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
	return mysqldb.OpenConfig(cfg)
}
