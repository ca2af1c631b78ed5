package spec

import (
	"encoding/json"
	"fmt"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// ParseLock checks src, the text of a lock: an events.yaml without what is of Go and
// SQL, and with what was published and is gone. It is Parse otherwise. The model's Go
// names are not those of the generated code.
func ParseLock(file string, src []byte) (*Model, diag.List) { return parse(file, src, true) }

// largest is how large the file may be, in bytes.
func (c *checker) largest() int {
	if c.lock {
		return maxLockSize
	}
	return maxFileSize
}

// andInLock are the keys of an object, with one more that only a lock has.
func (c *checker) andInLock(key string, keys ...string) []string {
	if c.lock {
		return append(keys, key)
	}
	return keys
}

// readRetired reads the names that are gone.
func (c *checker) readRetired(top object) {
	e, ok := top.vals["retired"]
	if !ok {
		return
	}
	o, ok := c.object(e.key, e.val, "retired", "events", "consumers")
	if !ok {
		return
	}
	read := func(key string, rule nameRule) (names []Name) {
		n := c.optional(o, key)
		if n == nil {
			return nil
		}
		for _, item := range c.list(n, "retired."+key, key+": [order.accepted]") {
			if name, ok := c.name(item, rule); ok {
				names = append(names, name)
			}
		}
		return names
	}
	c.model.Retired = Retired{Events: read("events", eventName), Consumers: read("consumers", consumerName)}
}

// retiredVersions reads the numbers of an event's versions that are gone.
func (c *checker) retiredVersions(o object, ev *Event) {
	if !o.has("retired") {
		return
	}
	for _, item := range c.list(o.vals["retired"].val, "retired of "+o.what, "retired: [1]") {
		if number, ok := c.versionNumber(item); ok {
			ev.Retired = append(ev.Retired, number)
		}
	}
}

// fixture reads the payload that a version was locked with. Its fields are known by now.
func (c *checker) fixture(o object, v *Version, what string) string {
	n := c.optional(o, "fixture")
	if n == nil {
		return ""
	}
	text, ok := c.scalar(n, "the fixture of "+what)
	if !ok {
		return ""
	}
	const hint = "restore it from version control: it is what was published"
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &values) != nil || values == nil {
		c.problem(n, "bad-fixture", fmt.Sprintf("the fixture of %s is not a JSON object", what), hint)
		return text
	}
	for _, wrong := range misfits("", v.Fields, values) {
		c.problem(n, "bad-fixture", fmt.Sprintf("the fixture of %s %s", what, wrong), hint)
	}
	return text
}
