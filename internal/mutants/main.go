// Command mutants breaks our own code on purpose, one way at a time, and sees whether the
// test that is named for it notices. A mutant that survives is a guarantee that nothing tests.
//
// Files are replaced for the compiler only (go test -overlay): the working tree isn't touched.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() {
	pattern := flag.String("run", "", "only mutants whose name this regular expression matches")
	list := flag.Bool("list", false, "print the table and run nothing")
	flag.Parse()
	if err := run(*pattern, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(pattern string, list bool) error {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	runner := &runner{sound: make(map[target]trial)}
	var bad []string
	n := 0
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		n++
		if list {
			fmt.Printf("%-60s %s %s\n", m.name, m.pkg, m.test)
			continue
		}
		began := time.Now()
		verdict, err := runner.try(m)
		if err != nil {
			bad = append(bad, m.name)
			fmt.Printf("SURVIVED %-60s %v\n", m.name, err)
			continue
		}
		fmt.Printf("killed   %-60s by %s, %.0fs\n", m.name, verdict, time.Since(began).Seconds())
	}
	if n == 0 {
		return fmt.Errorf("no mutant's name matches %q", pattern)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d were not killed: %s", len(bad), n, strings.Join(bad, "; "))
	}
	if !list {
		fmt.Printf("all %d mutants were killed\n", n)
	}
	return nil
}
