package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// findFlags are the conditions of a search.
type findFlags struct {
	page                   pageFlags
	aggregate, typ, status string
	since, until           string
	request                []string
}

func (a *app) findCommand() *cobra.Command {
	var o opsFlags
	var f findFlags
	cmd := &cobra.Command{
		Use:   "find",
		Short: "Find events by aggregate, request, type, status and time, the newest first",
		Long: `Find events that the outbox has, the newest first. All conditions have to hold.

--request finds them through the business tables that ` + "`source`" + ` in events.yaml names: by the
columns of its ` + "`request`" + `, in their order. The times of --since and --until are those in event
ids, which were made by the clocks of the services that wrote them.

A search that no index serves reads back from the newest event for 0.8 seconds, and then
says how far it came and how to go on: so it is with --type, and with --aggregate where
ordering is none.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd, "aggregate", "type", "status", "since", "until", "before"); err != nil {
				return err
			}
			q, err := f.query(time.Now())
			if err != nil {
				return err
			}
			return a.look(cmd, o, func(ctx context.Context, s *ops.Service) error {
				if err := checkRequest(s.Model(), q); err != nil {
					return err
				}
				found, err := s.Find(ctx, q)
				if err != nil {
					return err
				}
				return a.printData(found, func(t *tableWriter) {
					eventRows(t, found.Items)
					endOfPage(t, len(found.Items), "no such event was found", found.Note, "before", found.Next)
				})
			})
		},
	}
	o.register(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&f.aggregate, "aggregate", "", "events of an aggregate: order/123; the first slash ends the type")
	flags.StringArrayVar(&f.request, "request", nil, "events of a request: its key as events.yaml's source has it, such as 7,r-1; with commas in a value, the flag once for each: --request 7 --request r,1")
	flags.StringVar(&f.typ, "type", "", "events of a type")
	flags.StringVar(&f.status, "status", "", "pending, published, dead or discarded")
	flags.StringVar(&f.since, "since", "", "written since a time, 2026-11-30T14:00:00Z, or not longer ago than 2h")
	flags.StringVar(&f.until, "until", "", "written before a time, or longer ago than 2h")
	f.page.register(flags, "before")
	return cmd
}

// query is what the flags ask for.
func (f *findFlags) query(now time.Time) (q ops.Query, err error) {
	if err = f.page.check(); err != nil {
		return q, err
	}
	q = ops.Query{Request: f.request, Type: f.typ, Status: strings.ToLower(f.status), Limit: f.page.limit}
	if len(f.request) == 1 {
		q.Request = strings.Split(f.request[0], ",")
	}
	if f.page.cursor != "" {
		id, err := eventID(f.page.cursor)
		if err != nil {
			return q, err
		}
		q.Before = id.String()
	}
	if q.AggregateType, q.AggregateID, err = splitAggregate(f.aggregate); err != nil {
		return q, err
	}
	if q.Since, err = moment("since", f.since, now); err != nil {
		return q, err
	}
	q.Until, err = moment("until", f.until, now)
	return q, err
}

// checkRequest refuses a request that no source can have, and says what they have.
func checkRequest(m *spec.Model, q ops.Query) error {
	if len(q.Request) == 0 {
		return nil
	}
	var have []string
	for _, e := range m.Events {
		if e.Source == nil || q.Type != "" && e.Name.Text != q.Type {
			continue
		}
		if len(e.Source.Request) == len(q.Request) {
			return nil
		}
		columns := make([]string, len(e.Source.Request))
		for i, c := range e.Source.Request {
			columns[i] = strings.ToUpper(c.Text)
		}
		have = append(have, fmt.Sprintf("--request %s for %s", strings.Join(columns, ","), e.Name.Text))
	}
	if len(have) == 0 {
		return hinted{fmt.Errorf("no event that is meant has a source in %s", m.File), "without it nothing says where requests are; outboxgen find --aggregate may do"}
	}
	return hinted{fmt.Errorf("--request has %s, and no source has as many columns", counted(len(q.Request), "value")), "write " + strings.Join(have, ", or ")}
}

func eventRows(t *tableWriter, events []ops.Event) {
	if len(events) == 0 {
		return
	}
	now := time.Now()
	t.row("EVENT", "TYPE", "AGGREGATE", "VERSION", "STATE", "ATTEMPTS", "WRITTEN", "LAST ERROR")
	for _, e := range events {
		t.row(e.EventID, e.Type, e.AggregateType+"/"+e.AggregateID, e.AggregateVersion, e.State, e.Attempts, when(&e.CreatedAt, now), orDash(shortened(lastError(e), 60)))
	}
}

// lastError is an event's last error with its kind, or nothing.
func lastError(e ops.Event) string {
	if e.LastErrorKind == "" {
		return e.LastError
	}
	return e.LastErrorKind + ": " + e.LastError
}
