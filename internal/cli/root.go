// Package cli is the command line: one file a command, each with its flags and
// its run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Exit codes.
const (
	exitClean    = 0
	exitFindings = 1 // something to repair in the user's files, or files that differ
	exitFailed   = 2 // could not run
)

// app is what the commands share: where to write, and the flags of all of them.
type app struct {
	stdout, stderr io.Writer

	config  string
	format  string
	verbose bool

	answered bool // data was printed
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exit(root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "outboxgen",
		Short: "Typed transactional outbox for Go, MySQL and MariaDB, from one events.yaml",
		Args:  unknownCommand,
		// Findings and errors are printed by exit, in the format asked for.
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.format == formatTable {
				a.format = formatText
			}
			if !slices.Contains(formats, a.format) {
				unknown := a.format
				a.format = formatText
				return hinted{fmt.Errorf("unknown format %q", unknown), orNearest("use text, json or github", unknown, formats)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(unknownFlag)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	flags := root.PersistentFlags()
	flags.StringVarP(&a.config, "config", "f", defaultConfig, "the file that describes the events; paths in it count from its folder")
	flags.StringVar(&a.format, "format", formatText, "how findings and answers are printed: text (or table), json or github")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say what is done and why, on stderr")
	addGroup(root, "Describe events:", a.initCommand(), a.addCommand(), a.importCommand(), a.lintCommand(), a.explainCommand(), a.docsCommand(), a.exportCommand())
	addGroup(root, "Generate, and change what is published:", a.generateCommand(), a.checkCommand(), a.lockCommand(), a.breakingCommand(), a.schemaCommand())
	addGroup(root, "Operate a running service:", a.opsCommands()...)
	root.AddCommand(a.versionCommand())
	return root
}

// addGroup adds commands that help lists together.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
}

// helpCommand is cobra's, but that a command which isn't there is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = unknownCommand(about, rest)
			}
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// unknownCommand takes no argument: what is no command's name comes here.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := root.CommandPath() + " --help lists the commands"
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	}
	return hinted{fmt.Errorf("unknown command %q", args[0]), hint}
}

// unknownFlag says which flag may have been meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	note := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	hint := cmd.CommandPath() + " --help lists the flags"
	if near := diag.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		hint = fmt.Sprintf("did you mean --%s?", near)
	}
	return hinted{err, hint}
}

// checkGiven refuses flags that are given and empty, as those of a variable that isn't
// set are: what they stand for otherwise is not what was asked for.
func checkGiven(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return hinted{fmt.Errorf("--%s is empty", name), "is a variable not set? give it a value, or leave the flag out"}
		}
	}
	return nil
}

// orNearest is the hint that names the candidate nearest to word, or else the other.
func orNearest(hint, word string, candidates []string) string {
	if near := diag.Nearest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return hint
}

const defaultConfig = "events.yaml"

// commandLine is how the user would run another command on the same file.
func (a *app) commandLine(command string) string {
	line := "outboxgen " + command
	if a.config != defaultConfig {
		line += " --config " + a.config
	}
	return line
}

// hinted is an error with a way out.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// logf is for --verbose.
func (a *app) logf(format string, args ...any) {
	if a.verbose {
		fmt.Fprintf(a.stderr, "outboxgen: "+format+"\n", args...)
	}
}

func (a *app) logEach(verb string, paths []string) {
	for _, p := range paths {
		a.logf("%s %s", verb, p)
	}
}

// printf is for people: other formats keep stdout for their data.
func (a *app) printf(format string, args ...any) {
	if a.format == formatText {
		fmt.Fprintf(a.stdout, format, args...)
	}
}

// exit prints what a command ended with and turns it into the exit code.
func (a *app) exit(err error) int {
	var found findings
	switch {
	case err == nil:
		return exitClean
	case errors.Is(err, errReported):
		return exitFindings
	case errors.As(err, &found):
		if err := a.report(found.list); err != nil {
			fmt.Fprintln(a.stderr, "outboxgen: print the findings:", err)
			return exitFailed
		}
		return exitFindings
	default:
		a.reportError(err)
		return exitFailed
	}
}
