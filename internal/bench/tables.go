package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is a part of the report for people: a head and rows.
type table [][]string

// tables are those of the report that have rows.
func (r *report) tables() []table {
	rates := table{{"section", "database", "case", "middle", "rounds", "server, an event"}}
	for _, x := range r.Results {
		rates = append(rates, []string{
			x.Section, x.Database, x.Case, figure(x.Value) + " " + x.Unit, spread(x.Rounds), serverCPU(x.ServerCPU),
		})
	}
	times := table{{"section", "database", "case", "offered", "committed", "times", "p50", "p95", "p99", "max", "duplicates"}}
	for _, x := range r.Latencies {
		times = append(times, []string{
			x.Section, x.Database, x.Case, perSecond(float64(x.Offered)), perSecond(x.Committed), fmt.Sprint(x.Events),
			milli(x.P50), milli(x.P95), milli(x.P99), milli(x.Max), duplicates(x.Duplicates),
		})
	}
	checks := table{{"", "section", "database", "what", "is", "wanted", "rounds"}}
	for _, c := range r.Checks {
		verdict, sign := "PASS", "≥"
		if !c.Pass {
			verdict = "FAIL"
		}
		if c.AtMost {
			sign = "≤"
		}
		checks = append(checks, []string{
			verdict, c.Section, c.Database, c.What, fmt.Sprintf("%.2f", c.Value), fmt.Sprintf("%s %.2f", sign, c.Bound), spread(c.Rounds),
		})
	}
	return slices.DeleteFunc([]table{rates, times, checks}, func(t table) bool { return len(t) == 1 })
}

// duplicates is empty where nothing is consumed.
func duplicates(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func (r *report) print(out io.Writer) {
	fmt.Fprint(out, "\n"+r.setting())
	for _, t := range r.tables() {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range t {
			fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
		}
		_ = w.Flush()
	}
}

// setting says on what was measured, in lines.
func (r *report) setting() string {
	text := fmt.Sprintf("%d events, %d rounds; %d CPUs, %s, %s\n", r.Events, r.Rounds, r.Machine.CPUs, r.Machine.OS, r.Machine.Go)
	for _, name := range slices.Sorted(maps.Keys(r.Databases)) {
		text += fmt.Sprintf("%s %v\n", name, r.Databases[name])
	}
	return text
}

// markdown is the report for a page of documentation.
func (r *report) markdown() string {
	var s strings.Builder
	s.WriteString(r.setting())
	for _, t := range r.tables() {
		s.WriteString("\n")
		for i, row := range t {
			s.WriteString("| " + strings.Join(row, " | ") + " |\n")
			if i == 0 {
				s.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
			}
		}
	}
	return s.String()
}

func figure(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func spread(rounds []float64) string {
	if len(rounds) < 2 {
		return ""
	}
	return figure(slices.Min(rounds)) + "–" + figure(slices.Max(rounds))
}

func serverCPU(us float64) string {
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f µs", us)
}

func perSecond(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f/s", n)
}

func milli(ms float64) string { return fmt.Sprintf("%.1f ms", ms) }
