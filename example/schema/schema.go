// Package schema has the tables of the example's own services.
package schema

import (
	_ "embed"
	"strings"
)

//go:embed orders.sql
var orders string

// Statements returns the DDL in the order in which to run it. Real services use
// their migration tool.
func Statements() []string {
	var statements []string
	for _, s := range strings.Split(orders, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, strings.TrimSuffix(s, ";"))
		}
	}
	return statements
}
