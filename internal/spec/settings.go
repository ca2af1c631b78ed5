package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// longestPrefix leaves room for our longest table, index or constraint name,
// uq_consumed_event_identity and what may follow, within the 64 characters of
// a MySQL identifier.
const longestPrefix = 64 - 32

func defaultOutbox() OutboxConfig {
	return OutboxConfig{Ordering: OrderingAggregate, KeepPublished: 168 * time.Hour}
}

func defaultSQL() SQLConfig {
	return SQLConfig{Dialect: "mysql", Queries: Name{Text: "queries"}, Config: Name{Text: "sqlc.yaml"}}
}

func (c *checker) goConfig(top object) {
	if !top.has("go") {
		c.required(top, "go")
		return
	}
	e := top.vals["go"]
	o, ok := c.object(e.key, e.val, "go", "package", "out", "consumers", "types")
	if !ok {
		return
	}
	if n := c.required(o, "package"); n != nil {
		c.model.Go.Package, ok = c.name(n, packageName)
		if ok && isGoWord(n.text) {
			c.problem(n, "bad-name", fmt.Sprintf("the Go package name %s means something to Go itself", quote(n.text)),
				fmt.Sprintf("write %q or another name", n.text+"events"))
		}
	}
	if n := c.required(o, "out"); n != nil {
		c.model.Go.Out = c.goPath(n, "go.out")
	}
	if n := c.optional(o, "consumers"); n != nil {
		c.model.Go.Consumers = c.goPath(n, "go.consumers")
	}
}

func (c *checker) outboxConfig(top object) {
	e, ok := top.vals["outbox"]
	if !ok {
		return
	}
	o, ok := c.object(e.key, e.val, "outbox", "ordering", "keep_published", "table_prefix")
	if !ok {
		return
	}
	if n := c.optional(o, "ordering"); n != nil {
		c.ordering(n)
	}
	if n := c.optional(o, "keep_published"); n != nil {
		c.model.Outbox.KeepPublished = c.keepPublished(n)
	}
	if n := c.optional(o, "table_prefix"); n != nil {
		c.model.Outbox.TablePrefix, _ = c.name(n, prefixName)
	}
}

func (c *checker) keepPublished(n *node) time.Duration {
	const hint = `write how long a published event is kept, such as 168h, or "none" to delete it at once`
	switch {
	case n.kind == kindScalar && n.text == "none": // deleted at the mark
		return 0
	case n.kind == kindScalar && n.plain && isYAML11Bool(n.text), n.kind == kindNull:
		c.problem(n, "bad-duration", "keep_published must be a duration, found "+n.describe(), hint)
		return 0
	case n.kind == kindScalar:
		if near := c.didYouMean(n.text, []string{"none"}); near != "" {
			c.problem(n, "bad-duration", fmt.Sprintf("keep_published %s is not a duration", quote(n.text)), near)
			return 0
		}
	}
	return c.duration(n, "keep_published", hint)
}

func (c *checker) ordering(n *node) {
	const hint = `use "aggregate" or "none"`
	if n.kind == kindScalar && n.plain && isYAML11Bool(n.text) { // quotes would not make it better
		c.problem(n, "unknown-value", "unknown ordering "+quote(n.text), hint)
		return
	}
	text, ok := c.scalar(n, "ordering")
	switch {
	case !ok:
	case Ordering(text) == OrderingNone, Ordering(text) == OrderingAggregate:
		c.model.Outbox.Ordering, c.model.Outbox.OrderingPos = Ordering(text), n.pos
	default:
		near := c.didYouMean(text, []string{string(OrderingAggregate), string(OrderingNone)})
		c.problem(n, "unknown-value", "unknown ordering "+quote(text), cmp.Or(near, hint))
	}
}

func (c *checker) sqlConfig(top object) {
	e, ok := top.vals["sql"]
	if !ok {
		return
	}
	o, ok := c.object(e.key, e.val, "sql", "dialect", "schema", "queries", "config")
	if !ok {
		return
	}
	sql := &c.model.SQL
	if n := c.optional(o, "dialect"); n != nil {
		c.dialect(n)
	}
	if n := c.optional(o, "queries"); n != nil {
		sql.Queries, _ = c.path(n, "sql.queries")
	}
	if n := c.optional(o, "config"); n != nil {
		sql.Config, _ = c.path(n, "sql.config")
	}
	n := c.optional(o, "schema")
	if n == nil {
		return
	}
	first := map[string]diag.Pos{}
	for _, item := range c.listOrOne(n, "sql.schema", "schema: [db/schema.sql]") {
		name, ok := c.path(item, "sql.schema")
		if !ok {
			continue
		}
		if pos, twice := first[name.Text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the schema %s appears twice", quote(name.Text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[name.Text] = item.pos
		sql.Schema = append(sql.Schema, name)
	}
}

func (c *checker) dialect(n *node) {
	text, ok := c.scalar(n, "dialect")
	if !ok || text == "mysql" {
		return
	}
	hint := `the only dialect is "mysql"`
	if strings.EqualFold(text, "mariadb") {
		hint = `write "mysql": its output runs on MariaDB 10.6 and later too`
	}
	c.problem(n, "unknown-value", fmt.Sprintf("unknown dialect %s", quote(text)), hint)
}

// mostCount bounds numbers that count what one process holds or does.
const mostCount = 10_000

// count reads a number from 1 on.
func (c *checker) count(n *node, what string) int {
	const hint = "write a number from 1 to 10000, without quotes"
	if n.kind == kindScalar && !n.plain {
		c.problem(n, "bad-number", what+" is a number, not a text", hint)
		return 0
	}
	text, ok := c.scalar(n, what)
	if !ok {
		return 0
	}
	number, err := strconv.Atoi(text)
	if err != nil || !countText.MatchString(text) || number < 1 || number > mostCount {
		c.problem(n, "bad-number", fmt.Sprintf("%s cannot be %s", what, quote(text)), hint)
	}
	return number
}

var (
	countText    = regexp.MustCompile(`^[1-9][0-9]*$`)
	durationText = regexp.MustCompile(`^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`)
	daysText     = regexp.MustCompile(`^([0-9]{1,5}) ?(d|days?|w|weeks?)$`)
	numberText   = regexp.MustCompile(`^[0-9]{1,9}$`)
)

// duration reads hours, minutes and seconds. Days are left out as they are in
// Go: where clocks change, a day is not always 24 hours.
func (c *checker) duration(n *node, what, zeroHint string) time.Duration {
	text, ok := c.scalar(n, what)
	if !ok {
		return 0
	}
	if durationText.MatchString(text) {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			c.problem(n, "bad-duration", fmt.Sprintf("%s %s is too long", what, quote(text)), "")
		case d == 0:
			c.problem(n, "bad-duration", what+" is zero", zeroHint)
		}
		return d
	}
	hint := `write hours, minutes, seconds and milliseconds, like "168h", "1h30m" or "200ms"`
	if m := daysText.FindStringSubmatch(text); m != nil {
		days, _ := strconv.Atoi(m[1]) // digits, by the pattern; too many make a hint of nought
		if m[2][0] == 'w' {
			days *= 7
		}
		hint = fmt.Sprintf(`write "%dh": the units are h, m and s`, days*24)
	} else if numberText.MatchString(text) {
		hint = fmt.Sprintf(`give it a unit: "%sh", "%sm" or "%ss"`, text, text, text)
	}
	c.problem(n, "bad-duration", fmt.Sprintf("%s %s is not a duration", what, quote(text)), hint)
	return 0
}
