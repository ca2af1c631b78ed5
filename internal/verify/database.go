package verify

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/example/schema"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// database is a schema that experiments use one after the other.
type database struct {
	server *dbserver.Server
	name   string
	db     *sql.DB // the parent's
	tables []string
}

// ownTables are what the experiments need beside the example's: the business row of a
// cancellation, what handlers were given, and what was done to outbox rows, by whom and
// under whose lease.
var ownTables = []string{
	`CREATE TABLE cancellation (
		order_id BIGINT NOT NULL PRIMARY KEY, request_id VARCHAR(64) NOT NULL UNIQUE, event_id CHAR(36) NOT NULL)`,
	`CREATE TABLE handled_payload (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL, payload LONGBLOB NOT NULL)`,
	`CREATE TABLE outbox_change (
		id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) NOT NULL, actor VARCHAR(64) NOT NULL,
		pid BIGINT NOT NULL, status_before INT NOT NULL, status_after INT NOT NULL)`,
	// pid is of the run that holds the lease of the event's lane at this moment, in
	// the changing transaction's eyes.
	`CREATE TRIGGER watch_outbox_event AFTER UPDATE ON outbox_event FOR EACH ROW
		INSERT INTO outbox_change (event_id, actor, pid, status_before, status_after)
		VALUES (NEW.event_id, COALESCE(@actor, ''),
			COALESCE((SELECT r.pid FROM outbox_lane l JOIN outbox_relay r ON r.owner = l.lease_owner WHERE l.lane = NEW.lane), 0),
			OLD.status, NEW.status)`,
}

// rowsAtStart are there before each experiment.
var rowsAtStart = []string{
	fmt.Sprintf("INSERT INTO notification_channel (tenant_id, channel) VALUES (%d, 'email')", tenant),
	"INSERT INTO stock (sku, available) VALUES ('" + stockSKU + "', 1000000)",
}

func createDatabase(ctx context.Context, server *dbserver.Server, name string) (*database, error) {
	admin, err := openQuietly(server.DSN(""))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, err
	}
	d := &database{server: server, name: name}
	if d.db, err = openQuietly(server.DSN(name)); err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(1) // so that sessions can tell it from others
	for _, statement := range append(append(schema.Statements(), orderevents.Schema()...), ownTables...) {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the tables: %w", err)
		}
	}
	rows, err := d.db.QueryContext(ctx, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = ? AND table_type = 'BASE TABLE'`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return nil, err
		}
		d.tables = append(d.tables, table)
	}
	return d, rows.Err()
}

// openQuietly opens a pool that doesn't log what becomes of its connections: servers get killed here.
func openQuietly(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// empty takes everything out of the tables.
func (d *database) empty(ctx context.Context) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	statements := []string{"SET FOREIGN_KEY_CHECKS = 0"}
	for _, table := range d.tables {
		statements = append(statements, "DELETE FROM "+table)
	}
	statements = append(append(statements, rowsAtStart...), "SET FOREIGN_KEY_CHECKS = 1")
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("empty the tables: %w", err)
		}
	}
	return tx.Commit()
}

// dsn is for a child; addr is the server's, or that of a proxy in front of it.
func (d *database) dsn(addr, actor string) string {
	cfg, err := mysql.ParseDSN(d.server.DSN(d.name))
	if err != nil {
		panic("verify: a server's DSN does not parse") // FormatDSN made it
	}
	cfg.Addr = addr
	cfg.ReadTimeout, cfg.WriteTimeout = readTimeout, readTimeout
	cfg.Params = map[string]string{"@actor": "'" + actor + "'"}
	return cfg.FormatDSN()
}

// sessions are the connections to the schema other than the parent's own, and their open
// transactions.
func (d *database) sessions(ctx context.Context) (connections, transactions int, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(t.trx_id) FROM information_schema.processlist p
		LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
		WHERE p.db = ? AND p.id <> CONNECTION_ID()`, d.name).Scan(&connections, &transactions)
	return connections, transactions, err
}

func (d *database) version(ctx context.Context) string {
	var version string
	if err := d.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		version = "version unknown"
	}
	return d.server.Flavor.String() + " " + version
}
