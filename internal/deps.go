package internal

import (
	_ "github.com/dave/jennifer/jen"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/shopspring/decimal"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/tools/imports"
	_ "gopkg.in/yaml.v3"
	_ "pgregory.net/rapid"
)
