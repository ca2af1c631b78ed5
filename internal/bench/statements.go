package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// statement is one of the relay's own statements, as sqlc reads it.
type statement string

var (
	argument = regexp.MustCompile(`sqlc\.arg\(\w+\)`)
	list     = regexp.MustCompile(`sqlc\.slice\(\w+\)`)
)

// with puts n placeholders for each of its lists.
func (s statement) with(n ...int) string {
	return list.ReplaceAllStringFunc(string(s), func(string) string {
		length := n[0]
		n = n[1:]
		return strings.Repeat(",?", length)[1:]
	})
}

// statements are those of a kind of outbox that a bare loop runs.
type statements struct {
	// Both kinds.
	markPublished statement
	// Leases of rows.
	selectDueEvents, leaseEvents statement
	// Leases of lanes.
	addLanes, selectLaneEvents, lockLanes statement
}

// readStatements reads a kind's queries/claim.sql.
func readStatements(k *kind) (*statements, error) {
	file := filepath.Join(k.queries, "claim.sql")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("run it from the top of the repository: %w", err)
	}
	named := map[string]statement{}
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		name, body, _ := strings.Cut(part, " ")
		_, body, _ = strings.Cut(body, "\n")
		body = argument.ReplaceAllString(strings.TrimSuffix(strings.TrimSpace(body), ";"), "?")
		named[name] = statement("-- name: " + name + " :bare\n" + body)
	}
	var s statements
	wanted := map[string]*statement{"MarkPublished": &s.markPublished}
	if k.byLane {
		wanted["AddLanes"], wanted["SelectLaneEvents"], wanted["LockLanes"] = &s.addLanes, &s.selectLaneEvents, &s.lockLanes
	} else {
		wanted["SelectDueEvents"], wanted["LeaseEvents"] = &s.selectDueEvents, &s.leaseEvents
	}
	for name, to := range wanted {
		if *to = named[name]; *to == "" {
			return nil, fmt.Errorf("%s has no statement %s", file, name)
		}
	}
	return &s, nil
}
