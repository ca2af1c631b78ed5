package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// dump writes a model so that a person can compare it with its file: a line a
// thing, positions behind an @.
func dump(m *Model) string {
	d := dumper{}
	d.line("service %s", d.name(m.Service))
	d.line("go package %s, out %s, consumers %s", d.name(m.Go.Package), d.name(m.Go.Out), d.name(m.Go.Consumers))
	kinds := make([]string, 0, len(m.Go.Types))
	for k := range m.Go.Types {
		kinds = append(kinds, string(k))
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		t := m.Go.Types[Kind(k)]
		d.line("  %s is %s %q .%s %s", k, t.Package, t.ImportPath, t.Ident, at(t.Pos))
	}
	d.line("outbox ordering %s, keep published %s, prefix %s", m.Outbox.Ordering, m.Outbox.KeepPublished, d.name(m.Outbox.TablePrefix))
	d.line("sql %s, queries %s, config %s", m.SQL.Dialect, d.name(m.SQL.Queries), d.name(m.SQL.Config))
	for _, s := range m.SQL.Schema {
		d.line("  schema %s", d.name(s))
	}
	d.line("broker stream %s, exchange %s, topic %s", d.name(m.Broker.Stream), d.name(m.Broker.Exchange), d.name(m.Broker.Topic))
	if m.Broker.Retention > 0 {
		d.line("  retention %s", m.Broker.Retention)
	}
	for _, i := range m.Lint.Ignore {
		d.line("lint ignores %s, all %v", d.name(i.Rule), i.All)
		for _, n := range i.Names {
			d.line("  of %s", d.name(n))
		}
	}
	if x := m.Exports; x.Out.Text != "" {
		d.line("exports out %s, formats %v, schema base %s", d.name(x.Out), x.Formats, d.name(x.SchemaBase))
	}
	for _, t := range m.Types {
		d.named("type "+d.name(t.Name), t, 0)
	}
	for _, e := range m.Events {
		d.event(e)
	}
	for _, c := range m.Consumers {
		d.line("consumer %s = %s, package %s, retain %s", d.name(c.Name), c.GoName, c.Package, c.Retain)
		d.line("  concurrency %d, timeout %s, attempts %d, backoff %s to %s, drop stale %v",
			c.Concurrency, c.Timeout, c.Retry.Attempts, c.Retry.Backoff, c.Retry.MaxBackoff, c.DropStale)
		d.line("  queue %s, group %s", d.name(c.Broker.Queue), d.name(c.Broker.Group))
		d.prose(1, "doc", c.Doc)
		d.prose(1, "deprecated", c.Deprecated)
		for _, e := range c.Handles {
			d.line("  handles %s", e.Name.Text)
		}
	}
	return d.b.String()
}

type dumper struct{ b strings.Builder }

func at(p diag.Pos) string { return fmt.Sprintf("@%d:%d", p.Line, p.Col) }

func (d *dumper) line(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *dumper) name(n Name) string {
	if !n.Pos.IsValid() {
		return fmt.Sprintf("%q", n.Text)
	}
	return fmt.Sprintf("%q%s", n.Text, at(n.Pos))
}

func (d *dumper) prose(depth int, what, text string) {
	if text == "" {
		return
	}
	for l := range strings.SplitSeq(text, "\n") {
		d.line("%s%s | %s", strings.Repeat("  ", depth), what, l)
	}
}

func (d *dumper) event(e *Event) {
	d.line("event %s = %s", d.name(e.Name), e.GoName)
	d.prose(1, "doc", e.Doc)
	d.prose(1, "deprecated", e.Deprecated)
	a := e.Aggregate
	d.line("  aggregate %s, id %s, version %s", d.name(a.Type), d.name(a.ID), d.name(a.Version))
	if s := e.Source; s != nil {
		d.line("  source %s table %s, event_id %s, aggregate_id %s, created_at %s", at(s.Pos), d.name(s.Table), d.name(s.EventID), d.name(s.AggregateID), d.name(s.CreatedAt))
		for _, r := range s.Request {
			d.line("    request %s", d.name(r))
		}
	}
	b := e.Broker
	d.line("  stream %s, exchange %s, topic %s, key %s", d.name(b.Stream), d.name(b.Exchange), d.name(b.Topic), d.name(b.Key))
	for _, v := range e.Versions {
		d.version(v)
	}
}

func (d *dumper) version(v *Version) {
	listed := ""
	if v.Listed {
		listed = ", listed"
	}
	d.line("  version %d = %s %s%s, aggregate's id %s, version %s", v.Number, v.GoName, at(v.Pos), listed, v.ID.GoName, v.AggregateVersion.GoName)
	d.prose(2, "doc", v.Doc)
	d.prose(2, "deprecated", v.Deprecated)
	for _, n := range v.Reserved {
		d.line("    reserved %s", d.name(n))
	}
	if up := v.Upcast; up != nil {
		d.line("    upcast from %d, manual %v", up.From.Number, up.Manual)
		for _, cp := range up.Copied {
			d.line("      copies %s, convert %v, default %v", cp.To.Name.Text, cp.Convert, cp.Default)
		}
		for _, f := range up.Filled {
			d.line("      fills %s", f.Name.Text)
		}
		for _, f := range up.Open {
			d.line("      leaves %s", f.Name.Text)
		}
	}
	d.fields(v.Fields, 2)
}

func (d *dumper) named(title string, n *Named, depth int) {
	pad := strings.Repeat("  ", depth)
	d.line("%s%s = %s %s", pad, title, n.GoName, at(n.Pos))
	if n.Go != nil {
		d.line("%s  in Go %s %q .%s %s", pad, n.Go.Package, n.Go.ImportPath, n.Go.Ident, at(n.Go.Pos))
	}
	d.prose(depth+1, "doc", n.Doc)
	for _, v := range n.Enum {
		d.line("%s  value %s = %s", pad, d.name(v.Name), v.GoName)
	}
	d.fields(n.Fields, depth+1)
}

func (d *dumper) fields(fields []*Field, depth int) {
	pad := strings.Repeat("  ", depth)
	for _, f := range fields {
		flags := ""
		if f.Optional {
			flags += " optional"
		}
		if f.PII {
			flags += " pii"
		}
		if t := f.Type.Innermost().Go; t != nil {
			flags += fmt.Sprintf(" in Go %s.%s", t.ImportPath, t.Ident)
		}
		d.line("%sfield %s = %s: %s%s%s", pad, d.name(f.Name), f.GoName, f.Type, at(f.Type.Pos), flags)
		d.prose(depth+1, "doc", f.Doc)
		d.prose(depth+1, "deprecated", f.Deprecated)
		if f.Default != nil {
			d.line("%s  default %s%s", pad, f.Default.JSON, at(f.Default.Pos))
		}
		if n := f.Type.Named; n != nil && n.Inline {
			d.named("inline "+string(f.Type.Kind), n, depth+1)
		}
	}
}
