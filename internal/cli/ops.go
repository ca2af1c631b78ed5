package cli

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/dsn"
	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// opsCommands are those that look into the tables of a running service, and mend them.
func (a *app) opsCommands() []*cobra.Command {
	return []*cobra.Command{
		a.statusCommand(), a.showCommand(), a.findCommand(), a.consumedCommand(), a.deadCommand(), a.parkedCommand(), a.auditCommand(),
		a.doctorCommand(), a.reconcileCommand(),
		a.pauseCommand(), a.resumeCommand(), a.purgeCommand(),
		a.uiCommand(),
	}
}

// opsFlags say where the tables of a running service are.
type opsFlags struct {
	dsn       string
	consumers []string
}

func (o *opsFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.dsn, "dsn", "", "the outbox's database, user:password@tcp(host:3306)/database; better in the environment, as "+dsn.Variable+", where no list of processes shows it")
	flags.StringArrayVar(&o.consumers, "consumer-dsn", nil, "NAME=DSN of a consumer whose tables are in another database; NAME=env:VARIABLE takes the DSN from the environment; may be given several times")
}

// service opens the databases of a command, and returns what closes them.
func (a *app) service(cmd *cobra.Command, o opsFlags) (*ops.Service, func(), error) {
	m, in, closeAll, err := a.databases(cmd, o)
	if err != nil {
		return nil, nil, err
	}
	s, err := ops.New(m, in)
	if err != nil {
		closeAll()
		return nil, nil, opsError(err)
	}
	return s, closeAll, nil
}

// databases opens those of a command, and returns what closes them.
func (a *app) databases(cmd *cobra.Command, o opsFlags) (*spec.Model, ops.Databases, func(), error) {
	var in ops.Databases
	closeAll := func() {
		if in.Outbox != nil {
			in.Outbox.Close()
		}
		for _, db := range in.Consumers {
			db.Close()
		}
	}
	if err := checkGiven(cmd, "dsn"); err != nil {
		return nil, in, nil, err
	}
	m, err := a.model()
	if err != nil {
		return nil, in, nil, err
	}
	if in.Outbox, err = dsn.Open(o.dsn); err != nil {
		return nil, in, nil, withHint(err)
	}
	if in.Consumers, err = o.openConsumers(in.Outbox); err != nil {
		closeAll()
		return nil, in, nil, err
	}
	return m, in, closeAll, nil
}

// openConsumers opens the databases of --consumer-dsn. One that is named twice, or is the outbox's, is one.
func (o opsFlags) openConsumers(outbox *sql.DB) (map[string]*sql.DB, error) {
	out, opened := map[string]*sql.DB{}, map[string]*sql.DB{cmp.Or(o.dsn, os.Getenv(dsn.Variable)): outbox}
	for _, text := range o.consumers {
		name, at, found := strings.Cut(text, "=")
		if variable, is := strings.CutPrefix(at, "env:"); is {
			at = os.Getenv(variable)
		}
		if !found || name == "" || at == "" {
			return out, hinted{errors.New("--consumer-dsn can't be read, or its DSN is empty"), "write NAME=DSN, or NAME=env:VARIABLE"}
		}
		if opened[at] == nil {
			db, err := dsn.Open(at)
			if err != nil {
				return out, withHint(fmt.Errorf("the consumer %s: %w", name, err))
			}
			opened[at] = db
		}
		out[name] = opened[at]
	}
	return out, nil
}

// model reads the config, with the project's own schema left aside.
func (a *app) model() (*spec.Model, error) {
	if err := isConfig(a.config); err != nil {
		return nil, err
	}
	text, err := readConfig(a.config)
	if err != nil {
		return nil, err
	}
	m, list := spec.Parse(a.config, text)
	return m, found(list)
}

// opsError gives what package ops refuses its hint.
func opsError(err error) error {
	var unknown *ops.NotKnownError
	if errors.As(err, &unknown) && len(unknown.Have) > 0 {
		return hinted{err, orNearest("there are: "+strings.Join(unknown.Have, ", "), unknown.Name, unknown.Have)}
	}
	if option := (*ops.OptionError)(nil); errors.As(err, &option) {
		return hinted{err, option.Hint}
	}
	if lost := (*ops.UnknownError)(nil); errors.As(err, &lost) {
		return hinted{err, "outboxgen audit says whether they were: a change and its row there are made together"}
	}
	if hint := ops.Hint(err); hint != "" {
		return hinted{err, hint}
	}
	return err
}

// printData prints what a command found: an object for programs, or whatever table does for people.
func (a *app) printData(data any, table func(*tableWriter)) error {
	a.answered = true
	if a.format == formatJSON {
		text, err := json.MarshalIndent(data, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, escaped(string(text)))
		return err
	}
	t := &tableWriter{w: tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
	table(t)
	return t.w.Flush()
}

// tableWriter prints columns.
type tableWriter struct{ w *tabwriter.Writer }

// row prints a line of cells. What comes from a database is shown without what would
// command a terminal.
func (t *tableWriter) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, printable(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t.w)
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// escaped writes in JSON's own way what JSON leaves as it is and a terminal may obey: C1
// controls, and marks that turn the direction of text.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
