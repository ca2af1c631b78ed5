package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/amend"
	"github.com/outboxgen/outboxgen/internal/diag"
	"github.com/outboxgen/outboxgen/internal/spec"
)

func (a *app) addCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add an event or a consumer to events.yaml",
		Long: `Add an event or a consumer to events.yaml. Comments, order and layout of what is
there stay as they are, and nothing is written that would not be in order.`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(a.addEventCommand(), a.addConsumerCommand())
	return cmd
}

func (a *app) addEventCommand() *cobra.Command {
	var e amend.Event
	cmd := &cobra.Command{
		Use:     "event NAME",
		Short:   "Add an event with the fields of its aggregate",
		Example: "  outboxgen add event order.refunded --consumer notification-planner",
		Args:    oneName("event", "order.refunded"),
		RunE: func(_ *cobra.Command, args []string) error {
			e.Name = args[0]
			return a.amend(fmt.Sprintf("the event %s", e.Name), func(src []byte, model *spec.Model) ([]byte, error) {
				out, err := amend.AddEvent(src, model, e)
				if err == nil {
					a.noteNear(model, e)
				}
				return out, err
			})
		},
	}
	cmd.Flags().StringVar(&e.Aggregate, "aggregate", "", "the type of the aggregate (default the first word of the name)")
	cmd.Flags().StringVar(&e.Consumer, "consumer", "", "a consumer that handles the event; added if it isn't there")
	return cmd
}

func (a *app) addConsumerCommand() *cobra.Command {
	var handles []string
	cmd := &cobra.Command{
		Use:     "consumer NAME --handles EVENT,…",
		Short:   "Add a consumer of events that are there",
		Example: "  outboxgen add consumer audit-log --handles order.accepted,order.cancelled",
		Args:    oneName("consumer", "audit-log --handles order.accepted"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(handles) == 0 {
				return hinted{errors.New("a consumer handles at least one event"), "name them with --handles order.accepted,order.cancelled"}
			}
			return a.amend(fmt.Sprintf("the consumer %s", args[0]), func(src []byte, model *spec.Model) ([]byte, error) {
				return amend.AddConsumer(src, model, args[0], handles)
			})
		},
	}
	cmd.Flags().StringSliceVar(&handles, "handles", nil, "the events, separated by commas")
	return cmd
}

// oneName asks for the name of what is added.
func oneName(what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return hinted{fmt.Errorf("add %s takes one name, and there are %d", what, len(args)), "write " + cmd.CommandPath() + " " + example}
	}
}

// noteNear says of a new aggregate or consumer that its name is near to one that is
// there: it may be a slip, and may as well be meant.
func (a *app) noteNear(model *spec.Model, e amend.Event) {
	var aggregates, consumers []string
	for _, have := range model.Events {
		aggregates = append(aggregates, have.Aggregate.Type.Text)
	}
	for _, have := range model.Consumers {
		consumers = append(consumers, have.Name.Text)
	}
	for _, n := range []struct {
		what, name string
		have       []string
	}{{"aggregate", e.Aggregate, aggregates}, {"consumer", e.Consumer, consumers}} {
		if near := diag.Nearest(n.name, n.have); near != "" && near != n.name {
			a.printf("outboxgen: the %s %s is new; if you meant %s, change it\n", n.what, n.name, near)
		}
	}
}

// amend rewrites the config, once what comes out is known to be in order.
func (a *app) amend(what string, edit func(src []byte, model *spec.Model) ([]byte, error)) error {
	if err := isConfig(a.config); err != nil {
		return err
	}
	src, err := readConfig(a.config)
	if err != nil {
		return err
	}
	model, problems := spec.Parse(a.config, src)
	if len(problems) > 0 {
		return found(problems)
	}
	out, err := edit(src, model)
	if r := (*amend.Refusal)(nil); errors.As(err, &r) {
		return hinted{err, r.Hint}
	}
	if err != nil {
		return err
	}
	if err := replaceFile(a.config, out); err != nil {
		return err
	}
	a.printf("outboxgen: added %s to %s; now describe it there, and run %s\n", what, a.config, a.commandLine("generate"))
	return a.reportClean()
}

// replaceFile writes a file that exists, whole or not at all. Of a link the file
// behind it is written.
func replaceFile(name string, data []byte) (err error) {
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+strings.TrimPrefix(filepath.Base(name), ".")+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
