// Package templates holds the SQL that the generator writes, a folder a
// dialect. Who wants to change a table or a query changes it here.
package templates

import "embed"

// FS holds the templates: <dialect>/<file>.tmpl becomes <file>.
//
//go:embed mysql/*.tmpl
var FS embed.FS
