package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/diag"
)

const (
	formatText   = "text"
	formatTable  = "table" // the same, as the commands for operations call it
	formatJSON   = "json"
	formatGitHub = "github"
)

var formats = []string{formatText, formatJSON, formatGitHub}

// errReported ends a command with exit code 1 that has printed its findings itself.
var errReported = errors.New("there are findings")

// findings end a command with exit code 1.
type findings struct{ list diag.List }

func (f findings) Error() string { return f.list.Error() }

// found is the error of a list, nil when it is empty.
func found(list diag.List) error {
	if len(list) == 0 {
		return nil
	}
	return findings{list.Sorted()}
}

// report prints findings: for people on stderr, for programs on stdout, where
// both of them look.
func (a *app) report(list diag.List) error {
	switch a.format {
	case formatJSON:
		return diag.JSON(a.stdout, list)
	case formatGitHub:
		return diag.GitHub(a.stdout, list)
	default:
		if err := diag.Text(a.stderr, list); err != nil {
			return err
		}
		return a.tellOfExplain(list)
	}
}

// tellOfExplain ends findings with the way to more. What a person reads once too
// often a machine doesn't read at all: other formats do without.
func (a *app) tellOfExplain(list diag.List) error {
	if len(list) == 0 {
		return nil
	}
	rule := list[0].Rule
	if slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Rule != rule }) {
		rule = "RULE"
	}
	_, err := fmt.Fprintf(a.stderr, "outboxgen explain %s tells more\n", rule)
	return err
}

// reportClean prints that there is no finding, where silence would not be data.
func (a *app) reportClean() error {
	if a.format == formatJSON {
		return a.report(nil)
	}
	return nil
}

// reportError prints why a command could not run. Behind an answer it is told on stderr in all
// formats: a program that reads stdout finds one document there.
func (a *app) reportError(err error) {
	d := couldNotRun(err)
	if a.format != formatText && !a.answered {
		_ = a.report(diag.List{d})
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(a.stderr, "outboxgen: %s\n", printable(line))
	}
	if d.Hint != "" {
		fmt.Fprintf(a.stderr, "    hint: %s\n", d.Hint)
	}
}

func couldNotRun(err error) diag.Diagnostic {
	d := diag.Diagnostic{Rule: "could-not-run", Message: err.Error()}
	if h := (hinted{}); errors.As(err, &h) {
		d.Hint = h.hint
	}
	return d
}
