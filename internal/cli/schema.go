package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ddl"
	"github.com/outboxgen/outboxgen/internal/migration"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

func (a *app) schemaCommand() *cobra.Command {
	var m migrationFlags
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the statements that create our tables, also as a migration",
		Long: `Print the statements that create the outbox's tables and view, as events.yaml
asks for them: as plain SQL, or as a migration of goose, golang-migrate or Atlas.

With --out the migration becomes one file or two in that folder, and no file that
exists is written to. The way down drops the tables, with all that is in them.
Atlas has no way down, and wants "atlas migrate hash" after a new file.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.schema(m) },
	}
	m.register(cmd.Flags(), "outbox_tables")
	cmd.AddCommand(a.schemaDiffCommand())
	return cmd
}

func (a *app) schema(m migrationFlags) error {
	if err := m.check(); err != nil {
		return err
	}
	layouts, err := a.layouts()
	if err != nil {
		return err
	}
	if err := m.isFirst(); err != nil {
		return err
	}
	return a.emit(m, script(layouts.Want.Statements()), script(layouts.Want.Drops()), a.print)
}

// isFirst refuses to create the tables a second time, in a migration that would fail.
func (m *migrationFlags) isFirst() error {
	if m.out == "" {
		return nil
	}
	names, err := namesIn(m.out)
	if err != nil {
		return nil // emit says it
	}
	if have := migration.Named(names, m.name); have != "" {
		return hinted{fmt.Errorf("%s exists", filepath.Join(m.out, have)), "for what has changed since take outboxgen schema diff, or else another --name"}
	}
	return nil
}

// layouts are our tables, from events.yaml alone: no Go module is needed for them.
func (a *app) layouts() (sqlgen.Layouts, error) {
	if err := isConfig(a.config); err != nil {
		return sqlgen.Layouts{}, err
	}
	events, err := readConfig(a.config)
	if err != nil {
		return sqlgen.Layouts{}, err
	}
	model, problems := spec.Parse(a.config, events)
	if len(problems) > 0 {
		return sqlgen.Layouts{}, found(problems)
	}
	layouts, problems := sqlgen.Tables(model)
	return layouts, found(problems)
}

// script is statements as a file has them.
func script(statements []ddl.Statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		if s.Comment != "" {
			texts[i] = s.Comment + "\n"
		}
		texts[i] += s.SQL + ";\n"
	}
	return strings.Join(texts, "\n")
}
