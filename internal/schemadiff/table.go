package schemadiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/ddl"
)

// comparison is that of one table.
type comparison struct {
	server Server
	want   *ddl.Table
	have   *ddl.Table
	other  *ddl.Table // as it is with the other ordering; nil where it isn't there

	out []change
	new map[string]bool // columns that are dropped and made anew
}

func (c *comparison) changes() []change {
	c.new = map[string]bool{}
	c.storage()
	for i := range c.want.Columns {
		c.column(&c.want.Columns[i])
	}
	c.primaryKey()
	renamed := c.keys()
	c.extraKeys(renamed)
	c.extraColumns()
	return c.out
}

func (c *comparison) add(x change) { c.out = append(c.out, x) }

func (c *comparison) storage() {
	if !strings.EqualFold(c.want.Engine, c.have.Engine) {
		c.add(change{
			rule:    "different-engine",
			what:    fmt.Sprintf("the engine is %s, not %s", c.have.Engine, c.want.Engine),
			clauses: []string{"ENGINE=" + c.want.Engine}, effort: copies,
		})
	}
	if c.want.Charset != c.have.Charset {
		c.add(change{
			rule:    "different-charset",
			what:    fmt.Sprintf("the default charset is %s, not %s", c.have.Charset, c.want.Charset),
			clauses: []string{"DEFAULT CHARSET=" + c.want.Charset}, effort: inplace,
		})
	}
}

func (c *comparison) primaryKey() {
	if slices.Equal(c.want.PrimaryKey, c.have.PrimaryKey) {
		return
	}
	x := change{rule: "different-key", effort: inplace}
	add := "ADD PRIMARY KEY (" + strings.Join(c.want.PrimaryKey, ", ") + ")"
	if len(c.have.PrimaryKey) == 0 {
		x.what = "the primary key is missing"
		x.clauses = []string{add}
	} else {
		x.what = fmt.Sprintf("the primary key is (%s), not (%s)", strings.Join(c.have.PrimaryKey, ", "), strings.Join(c.want.PrimaryKey, ", "))
		x.clauses = []string{"DROP PRIMARY KEY", add}
	}
	c.add(x)
}

// keys returns the names of keys that get another name.
func (c *comparison) keys() []string {
	var renamed []string
	for _, want := range c.want.Keys {
		have := c.have.Key(want.Name)
		if have == nil {
			if old := c.sameKey(want, renamed); old != nil {
				renamed = append(renamed, old.Name)
				c.add(change{
					rule:    "different-key",
					what:    fmt.Sprintf("the %s %s is named %s", kind(want), want.Name, old.Name),
					clauses: []string{fmt.Sprintf("RENAME INDEX %s TO %s", quoted(old.Name), want.Name)}, effort: inplace,
				})
				continue
			}
			c.add(change{
				rule:    "missing-key",
				what:    fmt.Sprintf("the %s %s is missing", kind(want), want.Name),
				clauses: []string{addKey(want)}, effort: inplace,
			})
			continue
		}
		again := slices.ContainsFunc(want.Columns, func(column string) bool { return c.new[column] })
		switch {
		case have.Unique != want.Unique || !slices.Equal(have.Columns, want.Columns) || again:
			c.add(change{
				rule: "different-key", what: fmt.Sprintf("the %s %s %s", kind(want), want.Name, keyDifference(want, *have)),
				clauses: []string{"DROP INDEX " + want.Name, addKey(want)}, effort: inplace,
			})
		case have.Hidden:
			show := map[bool]string{true: "NOT IGNORED", false: "VISIBLE"}[c.server.MariaDB]
			c.add(change{
				rule: "different-key", what: fmt.Sprintf("the %s %s is hidden from statements", kind(want), want.Name),
				clauses: []string{"ALTER INDEX " + want.Name + " " + show}, effort: inplace,
			})
		}
	}
	return renamed
}

func keyDifference(want, have ddl.Key) string {
	switch {
	case want.Unique && !have.Unique:
		return "isn't unique"
	case have.Unique && !want.Unique:
		return "is unique"
	case slices.Equal(want.Columns, have.Columns):
		return "has a column that is made anew"
	}
	return fmt.Sprintf("is of (%s), not of (%s)", strings.Join(have.Columns, ", "), strings.Join(want.Columns, ", "))
}

// sameKey finds a key that does the same by another name.
func (c *comparison) sameKey(want ddl.Key, taken []string) *ddl.Key {
	for i := range c.have.Keys {
		k := &c.have.Keys[i]
		ours := c.want.Key(k.Name) != nil
		anew := slices.ContainsFunc(k.Columns, func(column string) bool { return c.new[column] })
		if !ours && !anew && !k.Hidden && !slices.Contains(taken, k.Name) && k.Unique == want.Unique && slices.Equal(k.Columns, want.Columns) {
			return k
		}
	}
	return nil
}

func (c *comparison) extraKeys(renamed []string) {
	for _, k := range c.have.Keys {
		if c.want.Key(k.Name) != nil || slices.Contains(renamed, k.Name) {
			continue
		}
		x := change{
			rule: "extra-key", what: fmt.Sprintf("the %s %s is not ours", kind(k), k.Name), extra: true,
			hint:    "every event is written to it as well; --drop prints the statement that drops it",
			clauses: []string{"DROP INDEX " + quoted(k.Name)}, effort: inplace,
		}
		if k.Unique {
			x.hint = "it may refuse rows of ours; --drop prints the statement that drops it"
		}
		c.add(x)
	}
}

func kind(k ddl.Key) string {
	if k.Unique {
		return "unique constraint"
	}
	return "index"
}

func addKey(k ddl.Key) string {
	columns := "(" + strings.Join(k.Columns, ", ") + ")"
	if k.Unique {
		return "ADD CONSTRAINT " + k.Name + " UNIQUE " + columns
	}
	return "ADD KEY " + k.Name + " " + columns
}

// quoted is a name that isn't ours.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
