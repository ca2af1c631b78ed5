package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// pool is a relay's connections, or a writer's, counted.
type pool struct {
	*outbox.DB
	connects atomic.Int64 // connections made
}

// idleConns is how many idle connections a pool keeps, as those of mysqldb.Open do.
const (
	idleConns   = 16
	maxIdleTime = 30 * time.Second
)

// openPool opens a pool as mysqldb.Open does. A meter, if there is one, sees every statement.
func openPool(cfg *mysql.Config, idle int, m *meter) (*pool, error) {
	connector, err := mysqldb.Connector(cfg)
	if err != nil {
		return nil, err
	}
	p := &pool{}
	db := sql.OpenDB(countingConnector{Connector: connector, count: &p.connects, meter: m})
	db.SetMaxIdleConns(idle)
	db.SetConnMaxIdleTime(maxIdleTime)
	p.DB = mysqldb.Wrap(db)
	return p, nil
}

type countingConnector struct {
	driver.Connector
	count *atomic.Int64
	meter *meter
}

func (c countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.count.Add(1)
	conn, err := c.Connector.Connect(ctx)
	if err != nil || c.meter == nil {
		return conn, err
	}
	return c.meter.watch(conn)
}
