package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/importer"
)

func (a *app) importCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "import FORMAT FILE",
		Short: "Make an events.yaml of an AsyncAPI document or a JSON Schema",
		Long: `Make an events.yaml of an AsyncAPI document (asyncapi) or a JSON Schema
(jsonschema), in YAML or JSON.

What has no counterpart is told on stderr with its place in the source, and stands
as a TODO comment in what comes out.`,
		Example:   "  outboxgen import asyncapi asyncapi.yaml --out events.yaml",
		ValidArgs: importer.Formats(),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(importer.Formats(), args[0]) {
				return hinted{fmt.Errorf("unknown format %q to import", args[0]), orNearest("the formats are "+strings.Join(importer.Formats(), " and "), args[0], importer.Formats())}
			}
			if len(args) != 2 {
				return hinted{errors.New("import takes a format and a file"), "write outboxgen import asyncapi FILE"}
			}
			return a.importFile(args[0], args[1], out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this file, which must not exist, and not to stdout")
	return cmd
}

func (a *app) importFile(format, name, out string) error {
	if a.format != formatText && out == "" {
		return hinted{fmt.Errorf("stdout can't take both the events.yaml and notes as %s", a.format), "name a file for the events.yaml with --out"}
	}
	src, err := readAtMost(name, importer.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return hinted{fmt.Errorf("%s does not exist", name), "name the document; its path counts from the working directory"}
	}
	if err != nil {
		return err
	}
	text, notes, problems := importer.Import(format, name, src)
	if len(problems) > 0 {
		return found(append(notes, problems...))
	}
	if out == "" {
		if _, err := a.stdout.Write(text); err != nil {
			return err
		}
		return a.report(notes)
	}
	switch err := writeNew(out, text); {
	case errors.Is(err, fs.ErrExist):
		return hinted{fmt.Errorf("%s exists", out), "name another file: nothing is overwritten"}
	case err != nil:
		return err
	}
	a.printf("outboxgen: wrote %s\n", out)
	return a.report(notes)
}

// readAtMost reads a byte more than most, by which it can be told that a file is
// larger.
func readAtMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
