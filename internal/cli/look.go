package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxgen/outboxgen/internal/ops"
)

// errNotSo ends a command whose answer is no, and that its output says, with exit code 1.
var errNotSo = errReported

// look opens the service for a command that only looks.
func (a *app) look(cmd *cobra.Command, o opsFlags, do func(context.Context, *ops.Service) error) error {
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	return opsError(do(cmd.Context(), s))
}

// pageFlags are those of a list.
type pageFlags struct {
	limit  int
	cursor string
}

// register takes the name of the flag that goes on where a page ended.
func (p *pageFlags) register(flags *pflag.FlagSet, cursor string) {
	flags.IntVar(&p.limit, "limit", 50, "how many to show, 1 to 1000")
	flags.StringVar(&p.cursor, cursor, "", "go on behind this, as the page before says at its end")
}

func (p *pageFlags) check() error {
	if p.limit < 1 || p.limit > 1000 {
		return hinted{fmt.Errorf("--limit %d is not from 1 to 1000", p.limit), "leave it out for 50"}
	}
	return nil
}

// endOfPage says what comes behind a page.
func endOfPage(t *tableWriter, shown int, none, note, cursor, next string) {
	if shown == 0 {
		t.row(none)
	}
	if note != "" {
		t.row(note)
	}
	if next != "" {
		t.row("there is more: --" + cursor + " " + next)
	}
}

// splitAggregate splits type/id at the first slash: ids may have more.
func splitAggregate(text string) (typ, id string, err error) {
	if text == "" {
		return "", "", nil
	}
	typ, id, found := strings.Cut(text, "/")
	if !found || typ == "" || id == "" {
		return "", "", hinted{fmt.Errorf("--aggregate %q is not a type and an id", text), "write them with a slash between: order/123"}
	}
	return typ, id, nil
}

// oneEventID takes an event id as the only argument.
func oneEventID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return hinted{fmt.Errorf("%s were given", counted(len(args), "argument")), "give one event id"}
	}
	_, err := eventID(args[0])
	return err
}

// consumerAndEvent takes a consumer's name and an event id.
func consumerAndEvent(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return hinted{errors.New("a consumer and an event id are needed"), "such as: sales-report 019b76da-a800-7000-8000-000000000001"}
	}
	_, err := eventID(args[1])
	return err
}

// given is the event id that Args has checked.
func given(text string) uuid.UUID {
	id, _ := eventID(text)
	return id
}

// nextID is an id for people, if there is one.
func nextID(id *uuid.UUID) string {
	if id == nil {
		return ""
	}
	return "; next: " + id.String()
}

// listFlags are the conditions that dead and parked events share.
type listFlags struct {
	page          pageFlags
	typ, kind     string
	aggregate     string
	before, after string
}

func (f *listFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.typ, "type", "", "those of an event type")
	flags.StringVar(&f.kind, "kind", "", "those with a kind of error")
	flags.StringVar(&f.aggregate, "aggregate", "", "those of an aggregate: order/123")
	flags.StringVar(&f.before, "before", "", "those that failed before a time, 2026-11-30T14:00:00Z, or longer ago than 2h")
	flags.StringVar(&f.after, "after", "", "those that failed since a time, or not longer ago than 2h")
	f.page.register(flags, "cursor")
}

// conditions are the flags, read.
type conditions struct {
	aggregateType, aggregateID string
	before, after              time.Time
}

func (f *listFlags) conditions(cmd *cobra.Command, now time.Time) (c conditions, err error) {
	if err = checkGiven(cmd, "type", "kind", "aggregate", "before", "after", "cursor"); err != nil {
		return c, err
	}
	if err = f.page.check(); err != nil {
		return c, err
	}
	if c.aggregateType, c.aggregateID, err = splitAggregate(f.aggregate); err != nil {
		return c, err
	}
	if c.before, err = moment("before", f.before, now); err != nil {
		return c, err
	}
	c.after, err = moment("after", f.after, now)
	return c, err
}
