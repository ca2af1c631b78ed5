package spec

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// goName makes an exported Go identifier of a wire name: order_id is OrderID,
// order.accepted is OrderAccepted, IN_PROGRESS is InProgress, CNY stays CNY.
func goName(wire string) string {
	parts := strings.FieldsFunc(wire, func(r rune) bool { return r == '_' || r == '.' || r == '-' })
	var b strings.Builder
	for _, part := range parts {
		if len(parts) > 1 && strings.ToUpper(part) == part {
			part = strings.ToLower(part)
		}
		switch {
		case isInitialism(part):
			b.WriteString(strings.ToUpper(part))
		case strings.HasSuffix(part, "s") && isInitialism(strings.TrimSuffix(part, "s")):
			b.WriteString(strings.ToUpper(strings.TrimSuffix(part, "s")) + "s")
		default:
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// isInitialism knows the list of golint and its successors, with sku, which
// every shop has.
func isInitialism(s string) bool {
	switch s {
	case "acl", "api", "ascii", "cpu", "css", "dns", "eof", "guid", "html", "http", "https", "id", "ip", "json",
		"qps", "ram", "rpc", "sku", "sla", "smtp", "sql", "ssh", "tcp", "tls", "ttl", "udp", "ui", "uid", "uuid",
		"uri", "url", "utf8", "vm", "xml", "xmpp", "xsrf", "xss":
		return true
	}
	return false
}

// goNameOf returns the go_name of an object, or the one made of its wire name.
func (c *checker) goNameOf(o object, wire string) string {
	if n := c.optional(o, "go_name"); n != nil {
		if name, ok := c.name(n, goNameRule); ok {
			return name.Text
		}
	}
	return wire
}

// claim is a Go identifier that something in the file asks for.
type claim struct {
	goName string
	what   string // "event "order.accepted""
	pos    diag.Pos
	end    diag.Pos
	fixed  bool // the generated package declares it whatever the file says
	value  bool // of an enum: there is no go_name for it
}

// claimNames notes the identifiers of one thing in the generated package. The
// first is its own, the others are made of it.
func (c *checker) claimNames(n *node, what string, goNames ...string) {
	for _, name := range goNames {
		if name != "" {
			c.claims = append(c.claims, claim{goName: name, what: what, pos: n.pos, end: n.end})
		}
	}
}

// claimValue is claimNames, for the value of an enum.
func (c *checker) claimValue(n *node, what, goName string) {
	c.claims = append(c.claims, claim{goName: goName, what: what, pos: n.pos, end: n.end, value: true})
}

// fixedNames are what the generated package declares whatever the file says.
func fixedNames() []string {
	return []string{"CountParked", "LookupConsumed", "LookupEvent", "NewDedupPurger", "NewPurger", "NewStore", "Schema", "Service", "Topology", "Upcaster"}
}

// checkGoNames reports identifiers that two things would declare. One finding
// for a thing is enough: the same go_name settles the clash of an event's own
// name and of each function made of it.
func (c *checker) checkGoNames() {
	slices.SortStableFunc(c.claims, func(a, b claim) int {
		if a.pos.Line != b.pos.Line {
			return a.pos.Line - b.pos.Line
		}
		return a.pos.Col - b.pos.Col
	})
	taken := map[string]claim{}
	for _, name := range fixedNames() {
		taken[name] = claim{goName: name, fixed: true}
	}
	reported := map[diag.Pos]bool{}
	for _, cl := range c.claims {
		first, clash := taken[cl.goName]
		if !clash {
			taken[cl.goName] = cl
			continue
		}
		if reported[cl.pos] {
			continue
		}
		reported[cl.pos] = true
		c.add(clashOf(first, cl))
	}
}

func clashOf(first, second claim) diag.Diagnostic {
	d := diag.Diagnostic{Pos: second.pos, End: second.end, Rule: "go-name-clash"}
	if first.fixed {
		d.Message = fmt.Sprintf("%s needs the Go name %s, which the generated package uses itself", second.what, second.goName)
		d.Hint = "set go_name, or rename it"
		if second.value {
			d.Hint = "rename it"
		}
		return d
	}
	d.Message = fmt.Sprintf("%s needs the Go name %s, and so does %s", second.what, second.goName, first.what)
	d.Related = []diag.Related{{Pos: first.pos, Message: "first declared here"}}
	d.Hint = "set go_name on one of them, or rename it"
	if first.value || second.value {
		d.Hint = "rename one of them"
	}
	return d
}

// isGoWord reports names that a package can't or should not have: keywords,
// what the language declares, and names that mean something to the go command.
func isGoWord(s string) bool {
	switch s {
	case "main", "internal", "vendor", "testdata", "init":
		return true
	}
	return token.IsKeyword(s) || types.Universe.Lookup(s) != nil || strings.HasSuffix(s, "_test")
}
