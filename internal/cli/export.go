package cli

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/export"
	"github.com/outboxgen/outboxgen/internal/fileset"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print JSON Schemas, AsyncAPI, or the schema of events.yaml for an editor",
		Long: `Print what events.yaml describes in a format of somebody else's, or write it to a folder.

With the key exports in events.yaml, generate writes these files and check watches
them: this command is for a look, and for files that are not kept.`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.exportOf(spec.ExportAsyncAPI, "asyncapi", "AsyncAPI 3.0 of the service"),
		a.exportSchemas(),
		a.exportEditor(),
	)
	return cmd
}

func (a *app) docsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Print the catalogue of the events, in Markdown or as an HTML page",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.exportOf(spec.ExportMarkdown, "markdown", "The catalogue in Markdown"),
		a.exportOf(spec.ExportHTML, "html", "The catalogue as one page that needs no other file"),
	)
	return cmd
}

// exportOf is the command of a format with one file.
func (a *app) exportOf(format spec.ExportFormat, use, short string) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			model, err := a.described()
			if err != nil {
				return err
			}
			return a.deliver(cmd.Context(), export.Format(linking(model, out), format), out)
		},
	}
	outFlag(cmd, &out)
	return cmd
}

// linking is the model whose catalogue links to the JSON Schemas where all of them are in
// the folder that it is written to, whatever generate would write.
func linking(model *spec.Model, out string) *spec.Model {
	m := *model
	m.Exports.Formats = nil
	if out == "" {
		return &m
	}
	for _, schema := range export.Format(model, spec.ExportJSONSchema) {
		if _, err := os.Stat(filepath.Join(out, schema.Path)); err != nil {
			return &m
		}
	}
	m.Exports.Formats = []spec.ExportFormat{spec.ExportJSONSchema}
	return &m
}

// described is what events.yaml describes: no Go module is needed for it.
func (a *app) described() (*spec.Model, error) {
	if err := isConfig(a.config); err != nil {
		return nil, err
	}
	return readModel(a.config)
}

// exportEditor needs no events.yaml: its first use is to write one.
func (a *app) exportEditor() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "editor", Short: "JSON Schema of events.yaml itself, for completion in an editor", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.deliver(cmd.Context(), []fileset.File{{Path: export.EditorFile, Data: export.Editor()}}, out)
		},
	}
	outFlag(cmd, &out)
	return cmd
}

func (a *app) exportSchemas() *cobra.Command {
	var (
		out     string
		version int
	)
	cmd := &cobra.Command{
		Use:   "jsonschema [EVENT]",
		Short: "JSON Schema 2020-12 of the payloads, one file a version",
		Long: `JSON Schema 2020-12 of the payloads, one file a version.

With the name of an event, the schema of its newest version, or of --version, is
printed. All of them take a folder: --out.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, err := a.described()
			if err != nil {
				return err
			}
			files := export.Format(model, spec.ExportJSONSchema)
			switch {
			case len(args) == 1:
				file, err := payloadSchema(model, args[0], version)
				if err != nil {
					return err
				}
				files = []fileset.File{file}
			case version != 0:
				return hinted{fmt.Errorf("--version goes with an event"), "name the event: " + a.commandLine("export jsonschema order.accepted --version 1")}
			}
			return a.deliver(cmd.Context(), files, out)
		},
	}
	outFlag(cmd, &out)
	cmd.Flags().IntVar(&version, "version", 0, "version of the payload; the newest without it")
	return cmd
}

func outFlag(cmd *cobra.Command, out *string) {
	cmd.Flags().StringVarP(out, "out", "o", "", "write into this folder, and print nothing; counts from the working directory")
}

func payloadSchema(m *spec.Model, event string, number int) (fileset.File, error) {
	var names []string
	for _, e := range m.Events {
		names = append(names, e.Name.Text)
		if e.Name.Text != event {
			continue
		}
		for _, v := range e.Versions {
			if v.Number == number || number == 0 && v == e.Newest() {
				return fileset.File{Path: v.SchemaFile(e), Data: export.JSONSchema(m, e, v)}, nil
			}
		}
		var have []string
		for _, v := range e.Versions {
			have = append(have, strconv.Itoa(v.Number))
		}
		return fileset.File{}, hinted{fmt.Errorf("%s has no version %d", event, number), "it has " + strings.Join(have, ", ")}
	}
	hint := "the events are listed in " + m.File
	if near := diag.Nearest(event, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fileset.File{}, hinted{fmt.Errorf("no event %q", event), hint}
}

// deliver prints a file, or writes several into a folder as generate does: what isn't
// ours is left alone.
func (a *app) deliver(ctx context.Context, files []fileset.File, out string) error {
	if out == "" {
		if len(files) > 1 {
			return hinted{fmt.Errorf("%d files don't fit on standard output", len(files)), "name an event, or a folder with --out"}
		}
		_, err := a.stdout.Write(files[0].Data)
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return err
	}
	defer root.Close()
	report, err := fileset.Write(ctx, root, files, nil)
	if err != nil {
		return err
	}
	for i := range report.Problems {
		report.Problems[i].Pos.File = path.Join(filepath.ToSlash(out), report.Problems[i].Pos.File)
	}
	if err := found(report.Problems); err != nil {
		return err
	}
	a.printf("outboxgen: %d written, %d unchanged in %s\n", len(report.Changed)+len(report.Missing), report.Unchanged, out)
	return a.reportClean()
}
