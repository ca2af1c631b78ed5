package schemadiff

import (
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

// Plan leads from what a database has to what it should have.
type Plan struct {
	Steps    []Step    // in the order in which to run them
	Findings diag.List // a difference each
}

// Step is a statement, and what to know before it is run.
type Step struct {
	Comments []string
	SQL      string // without the semicolon
	Held     bool   // data may be lost by it: it is printed as a comment
}

// SQL renders the steps as a script, in which what is held is a comment.
func (p Plan) SQL() string {
	var b strings.Builder
	for i, step := range p.Steps {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, comment := range step.Comments {
			b.WriteString(strings.TrimRight("-- "+comment, " ") + "\n")
		}
		text := step.SQL + ";\n"
		if step.Held {
			text = "-- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n-- ") + "\n"
		}
		b.WriteString(text)
	}
	return b.String()
}

// Runs reports whether there is a statement to run.
func (p Plan) Runs() bool {
	for _, step := range p.Steps {
		if !step.Held {
			return true
		}
	}
	return false
}

// effort is what an ALTER TABLE costs, and whom it keeps waiting. Which change can be
// made in which way: "Online DDL Operations" in MySQL's manual, "InnoDB Online DDL"
// in MariaDB's; the tests run each on both.
type effort int

const (
	instant effort = iota // only metadata changes
	inplace               // writers go on while the server works
	copies                // the table is copied, and writers wait meanwhile
)

// clauses end the ALTER TABLE: a server that can't do it in this way refuses, and
// doesn't fall back to one in which writers wait.
func (e effort) clauses() string {
	switch e {
	case instant:
		return "ALGORITHM=INSTANT" // MySQL takes no LOCK with it
	case inplace:
		return "ALGORITHM=INPLACE, LOCK=NONE"
	default:
		return "ALGORITHM=COPY, LOCK=SHARED"
	}
}

// change is one difference, and what does away with it.
type change struct {
	rule    string
	what    string // "the column lane is missing"
	hint    string
	clauses []string // of ALTER TABLE
	after   []string // those of another one behind it, instant
	note    string   // a comment of its own
	effort  effort
	extra   bool // the database has more than it needs
}

// alter makes an ALTER TABLE of changes.
func alter(table string, changes []change) []Step {
	if len(changes) == 0 {
		return nil
	}
	var step Step
	var clauses, after []string
	most := instant
	for _, c := range changes {
		step.Comments = append(step.Comments, table+": "+c.what+".")
		if c.note != "" {
			step.Comments = append(step.Comments, c.note)
		}
		clauses = append(clauses, c.clauses...)
		after = append(after, c.after...)
		most = max(most, c.effort)
	}
	if most == copies {
		step.Comments = append(step.Comments, notOnline...)
	}
	step.SQL = alterTable(table, append(clauses, most.clauses()))
	steps := []Step{step}
	if len(after) > 0 {
		steps = append(steps, Step{SQL: alterTable(table, append(after, instant.clauses()))})
	}
	return steps
}

var notOnline = []string{
	"Not online: the server copies the table, and whoever writes to it waits meanwhile. Run it",
	"when there is little traffic, or make the same change with a tool for online schema changes.",
}

func alterTable(table string, clauses []string) string {
	return "ALTER TABLE " + table + "\n  " + strings.Join(clauses, ",\n  ")
}

// finding is a change as a finding.
func (c change) finding(table string) diag.Diagnostic {
	d := diag.Diagnostic{Rule: c.rule, Message: table + ": " + c.what, Hint: c.hint}
	if d.Hint == "" && c.effort == copies && !c.extra {
		d.Hint = "the server copies the table for it, and whoever writes to it waits meanwhile: run it when there is little traffic"
	}
	return d
}
