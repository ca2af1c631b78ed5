package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

const (
	module = "github.com/outboxgen/outboxgen"

	// blockedTenant has no notification channel until midway.
	blockedTenant = 4
	// soldOut is an article that nobody can have.
	soldOut = "sold-out"
	// articles is how many others there are, all in good supply.
	articles = 40
	// oldEvent was published, and applied by both consumers, longer ago than
	// anything is kept.
	oldEvent = "018cc251-f400-7000-8000-000000000000"
)

// stage is what the processes run on.
type stage struct {
	server *dbserver.Server // nil with a server of the reader's own
	admin  *mysql.Config    // without a database selected
	name   string           // of the database
	dsn    string           // with the database
	db     *outbox.DB
	broker brokerServer
	keep   bool
}

// setUp makes all that the processes need. What it returns must be closed, also
// with an error.
func setUp(ctx context.Context, opts options, out *printer) (*stage, error) {
	if err := buildPrograms(ctx, opts.programs()); err != nil {
		return nil, err
	}
	s := &stage{keep: opts.keep}
	if err := s.startDatabase(ctx, opts, out); err != nil {
		return s, err
	}
	if err := s.createSchema(ctx); err != nil {
		return s, fmt.Errorf("create the schema: %w", err)
	}
	var err error
	if s.broker, err = startBroker(ctx, opts.broker, out); err != nil {
		return s, err
	}
	out.say("%s", s.broker.describe())
	return s, nil
}

// buildPrograms builds api, relay and consumers into dir.
func buildPrograms(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), module+"/example/cmd/...")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs (run the demo inside a checkout): %w\n%s", err, out)
	}
	return nil
}

// startDatabase takes the first of: the DSN given, the one in the environment, a
// throwaway server.
func (s *stage) startDatabase(ctx context.Context, opts options, out *printer) error {
	dsn := opts.dsn
	if dsn == "" {
		dsn = os.Getenv(opts.flavor.EnvVar())
	}
	if dsn == "" {
		server, err := startServer(ctx, opts, out)
		if err != nil {
			return err
		}
		s.server, dsn = server, server.DSN("")
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		// The driver's error may quote the DSN, and with it the password.
		return errors.New("the DSN is not of the form user:password@tcp(127.0.0.1:3306)/")
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = 30 * time.Second // mysqldb.Open insists on both
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 30 * time.Second
	}
	cfg.DBName = ""
	s.admin = cfg.Clone()
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	s.name = "outboxgen_demo_" + hex.EncodeToString(random)
	version, err := s.createDatabase(ctx)
	if err != nil {
		return err
	}
	out.say("database %s on %s, version %s", s.name, cfg.Addr, version)
	cfg.DBName = s.name
	s.dsn = cfg.FormatDSN()
	s.db, err = mysqldb.Open(s.dsn)
	return err
}

func startServer(ctx context.Context, opts options, out *printer) (*dbserver.Server, error) {
	start := func(f dbserver.Flavor) (*dbserver.Server, error) {
		return dbserver.Start(ctx, f, dbserver.Options{Progress: func(line string) { out.say("%s", line) }})
	}
	server, err := start(opts.flavor)
	var unavailable *dbserver.UnavailableError
	if errors.As(err, &unavailable) && !opts.insist && opts.flavor == dbserver.MySQL {
		out.say("no MySQL server can be had here (%s); taking MariaDB", unavailable.Reason)
		return start(dbserver.MariaDB)
	}
	return server, err
}

func (s *stage) createDatabase(ctx context.Context) (version string, err error) {
	db, err := open(s.admin)
	if err != nil {
		return "", err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", fmt.Errorf("reach the database: %w", err)
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+s.name+" CHARACTER SET utf8mb4"); err != nil {
		return "", fmt.Errorf("create the database %s: %w", s.name, err)
	}
	return version, nil
}

func open(cfg *mysql.Config) (*sql.DB, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// createSchema makes the service's tables and the outbox's, and the rows that
// there are before the first order.
func (s *stage) createSchema(ctx context.Context) error {
	statements := append(schema.Statements(), orderevents.Schema()...)
	for tenant := 1; tenant < blockedTenant; tenant++ {
		statements = append(statements, channelFor(tenant))
	}
	statements = append(statements, "INSERT INTO stock (sku, available) VALUES ('"+soldOut+"', 0)")
	for i := range articles {
		statements = append(statements, fmt.Sprintf("INSERT INTO stock (sku, available) VALUES ('%s', 1000000)", sku(i)))
	}
	statements = append(statements,
		`INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, event_version, schema_version,
			payload, headers, created_at, available_at, status, published_at)
		VALUES ('`+oldEvent+`', 'order', '0', 'order.accepted', 1, 1, '{"tenant_id": 1}', '{}', '2024-01-01', '2024-01-01', 2, '2024-01-01')`,
		`INSERT INTO consumed_event (consumer_name, event_id, consumed_at)
		VALUES ('notification-planner', '`+oldEvent+`', '2024-01-01'), ('sales-report', '`+oldEvent+`', '2024-01-01')`,
	)
	for _, statement := range statements {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// countOld counts what is to be purged.
func (s *stage) countOld(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM outbox_event WHERE event_id = ?)
		+ (SELECT COUNT(*) FROM consumed_event WHERE event_id = ?)`, oldEvent, oldEvent).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the old rows: %w", err)
	}
	return n, nil
}

func channelFor(tenant int) string {
	return fmt.Sprintf("INSERT INTO notification_channel (tenant_id, channel) VALUES (%d, 'email')", tenant)
}

func sku(i int) string { return fmt.Sprintf("article-%02d", i) }

// hint is how to look at the database.
func (s *stage) hint() string {
	host, port, err := net.SplitHostPort(s.admin.Addr)
	if err != nil { // a socket of the reader's own server
		return "the database " + s.name
	}
	return fmt.Sprintf("mysql -h %s -P %s -u %s %s", host, port, s.admin.User, s.name)
}

// close ends and removes what setUp made.
func (s *stage) close() {
	if s.broker != nil {
		s.broker.close()
	}
	if s.db != nil {
		if s.server == nil && !s.keep {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			// At worst a database with a telling name is left.
			_, _ = s.db.ExecContext(ctx, "DROP DATABASE "+s.name)
		}
		s.db.Close()
	}
	if s.server != nil {
		_ = s.server.Stop() // its folder is swept by the next start
	}
}
