package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// mostVersion bounds the numbers of versions: the row's schema_version is an INT, and
// no file comes near.
const mostVersion = 9999

var versionNumber = regexp.MustCompile(`^[1-9][0-9]{0,3}$`)

// eventVersions reads versions:, or fields:, which is short for a single version 1.
func (c *checker) eventVersions(o object, ev *Event, what string) {
	switch {
	case o.has("versions") && o.has("fields"):
		c.problem(o.vals["fields"].key, "two-shapes", what+" has both fields and versions", "move the fields under a number in versions",
			diag.Related{Pos: o.vals["versions"].key.pos, Message: "versions is here"})
	case o.has("versions"):
		c.listedVersions(o.vals["versions"], ev, what)
	case o.has("fields"):
		v := &Version{Number: 1, GoName: ev.GoName, Pos: o.at.pos}
		v.Fields = c.fields(o.vals["fields"], what, fieldOwner{ev.GoName, true})
		ev.Versions = []*Version{v}
	default:
		c.problem(o.at, "missing-key", what+` lacks the key "fields"`, "give it fields:, or versions: with a number for each form that was ever sent")
	}
	c.checkVersions(ev)
}

func (c *checker) listedVersions(e entry, ev *Event, what string) {
	if e.val.kind == kindList {
		c.problem(e.val, "wrong-shape", "versions must be a mapping of numbers to versions, found a list", "write 1: on a line of its own, without a dash")
		return
	}
	if !c.isMapping(e.key, e.val, "versions of "+what) {
		return
	}
	if len(e.val.entries) == 0 {
		c.problem(e.key, "empty-value", "versions of "+what+" is empty", "give it at least version 1")
		return
	}
	type numbered struct {
		number int
		entry  entry
	}
	var list []numbered
	for _, ve := range e.val.entries {
		if number, ok := c.versionNumber(ve.key); ok {
			list = append(list, numbered{number, ve})
		}
	}
	// The newest first: it has the plain names of types declared in a field, which
	// older versions share where theirs are the same.
	slices.SortStableFunc(list, func(a, b numbered) int { return b.number - a.number })
	for i, n := range list {
		var newer *Version
		if i > 0 {
			newer = ev.Versions[0]
		}
		if newer != nil && newer.Number == n.number {
			c.problem(n.entry.key, "duplicate-key", fmt.Sprintf("version %d appears twice", n.number), "give one of them the next number",
				diag.Related{Pos: newer.Pos, Message: "first declared here"})
			continue
		}
		ev.Versions = slices.Insert(ev.Versions, 0, c.listedVersion(n.number, n.entry, ev, what, newer))
	}
}

func (c *checker) versionNumber(key *node) (int, bool) {
	if !versionNumber.MatchString(key.text) {
		c.problem(key, "bad-version-number", "the version "+quote(key.text)+" is not a number",
			fmt.Sprintf("number versions from 1 to %d, without a v or a dot", mostVersion))
		return 0, false
	}
	number, err := strconv.Atoi(key.text)
	return number, err == nil
}

func (c *checker) listedVersion(number int, e entry, ev *Event, what string, newer *Version) *Version {
	what = fmt.Sprintf("version %d of %s", number, what)
	v := &Version{Number: number, Listed: true, Pos: e.key.pos}
	owner := ""
	if ev.GoName != "" {
		v.GoName = fmt.Sprintf("%sV%d", ev.GoName, number)
		c.claimNames(e.key, what, v.GoName, "Write"+v.GoName)
		if owner = ev.GoName; newer != nil {
			owner = v.GoName
		}
	}
	o, ok := c.object(e.key, e.val, what, c.andInLock("fixture", "doc", "deprecated", "upcast", "reserved", "fields")...)
	if !ok {
		return v
	}
	v.Doc = c.prose(o)
	v.Deprecated = c.deprecated(o)
	if v.Deprecated != "" && newer == nil {
		c.problem(o.vals["deprecated"].key, "deprecated-newest", fmt.Sprintf("version %d is the newest, and writers write it", number),
			"deprecate the event, or add the version that replaces this one")
	}
	v.Reserved = c.reserved(o)
	v.Upcast = c.upcastKey(o)
	if !o.has("fields") {
		c.problem(e.key, "missing-key", what+` lacks the key "fields"`, "")
		return v
	}
	v.Fields = c.fields(o.vals["fields"], what, fieldOwner{owner, true})
	v.Fixture = c.fixture(o, v, what)
	if newer != nil {
		shareInline(v, newer)
	}
	return v
}

// upcastKey reads upcast: manual, the only value: what needs no Go code is found by
// itself.
func (c *checker) upcastKey(o object) *Upcast {
	n := c.optional(o, "upcast")
	if n == nil {
		return nil
	}
	if text, ok := c.scalar(n, "upcast"); ok && text != "manual" {
		hint := c.didYouMean(text, []string{"manual"})
		if hint == "" {
			hint = `write "manual" if Go code is to make this version of the one before, and leave it out otherwise`
		}
		c.problem(n, "unknown-value", "unknown upcast "+quote(text), hint)
	}
	return &Upcast{Manual: true}
}

func (c *checker) reserved(o object) []Name {
	n := c.optional(o, "reserved")
	if n == nil {
		return nil
	}
	var names []Name
	first := map[string]diag.Pos{}
	for _, item := range c.listOrOne(n, "reserved", "reserved: [total_cents]") {
		name, ok := c.name(item, fieldName)
		if !ok {
			continue
		}
		if pos, twice := first[name.Text]; twice {
			c.problem(item, "duplicate-value", fmt.Sprintf("the name %s is reserved twice", quote(name.Text)), "remove one of them",
				diag.Related{Pos: pos, Message: "first declared here"})
			continue
		}
		first[name.Text] = item.pos
		names = append(names, name)
	}
	return names
}

// checkVersions looks at the versions of an event side by side.
func (c *checker) checkVersions(ev *Event) {
	reserved := map[string]Name{}
	for i, v := range ev.Versions {
		for _, name := range v.Reserved {
			if _, before := reserved[name.Text]; !before {
				reserved[name.Text] = name
			}
		}
		for _, f := range v.Fields {
			if at, is := reserved[f.Name.Text]; is {
				c.problem(&node{pos: f.Name.Pos}, "reserved-field", fmt.Sprintf("the name %s is reserved: an older version used it for something else", quote(f.Name.Text)),
					"give the field another name", diag.Related{Pos: at.Pos, Message: "reserved here"})
			}
		}
		if i == 0 {
			if v.Upcast != nil {
				c.problem(&node{pos: v.Pos}, "upcast-of-oldest", fmt.Sprintf("version %d is the oldest, and there is none to make it of", v.Number), "remove upcast")
			}
			v.Upcast = nil
			continue
		}
		before := ev.Versions[i-1]
		c.checkDropped(before, v, reserved)
		c.planUpcast(before, v)
	}
}

// checkDropped reports a field that a version no longer has without a word.
func (c *checker) checkDropped(before, v *Version, reserved map[string]Name) {
	if v.Fields == nil {
		return
	}
	for _, f := range before.Fields {
		if _, is := reserved[f.Name.Text]; is || fieldOf(v, f.Name.Text) != nil {
			continue
		}
		c.problem(&node{pos: v.Pos}, "field-not-reserved", fmt.Sprintf("version %d drops the field %s of version %d", v.Number, quote(f.Name.Text), before.Number),
			fmt.Sprintf("add reserved: [%s], so that no later version uses the name for something else", f.Name.Text),
			diag.Related{Pos: f.Name.Pos, Message: "the field is declared here"})
	}
}

func fieldOf(v *Version, name string) *Field {
	for _, f := range v.Fields {
		if f.Name.Text == name {
			return f
		}
	}
	return nil
}
