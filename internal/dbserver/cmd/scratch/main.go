// Scratch makes an empty database named scratch on the servers that withservers
// started, prints its DSN, and waits for Ctrl-C.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, f := range dbserver.Flavors() {
		dsn := os.Getenv(f.EnvVar())
		if dsn == "" {
			continue
		}
		scratch, err := create(ctx, dsn)
		if err != nil {
			fmt.Fprintf(os.Stderr, "scratch: %v: %v\n", f, err)
			os.Exit(1)
		}
		fmt.Printf("%v is ready until Ctrl-C:\n\n  %s\n\n", f, scratch)
	}
	<-ctx.Done()
}

func create(ctx context.Context, dsn string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	cfg.DBName = "scratch"
	_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS scratch CHARACTER SET utf8mb4")
	return cfg.FormatDSN(), err
}
