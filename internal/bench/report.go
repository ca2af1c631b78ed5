package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a run found.
type report struct {
	Machine   machine           `json:"machine"`
	Databases map[string]string `json:"databases"` // versions
	Events    int               `json:"events"`
	Rounds    int               `json:"rounds"`
	Results   []result          `json:"results"`
	Latencies []latencies       `json:"latencies"`
	Checks    []check           `json:"checks"`
}

type machine struct {
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
	OS   string `json:"os"`
}

func newReport(s settings) *report {
	return &report{
		Machine:   machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH},
		Databases: map[string]string{},
		Events:    s.events,
		Rounds:    s.rounds,
	}
}

// result is a figure.
type result struct {
	Section  string    `json:"section"`
	Database string    `json:"database"`
	Case     string    `json:"case"`
	Unit     string    `json:"unit"`
	Value    float64   `json:"value"`
	Rounds   []float64 `json:"rounds,omitempty"` // of which Value is the middle

	ServerCPU float64 `json:"server_cpu_us_per_event,omitempty"`
}

// latencies are how long something took each time, in milliseconds.
type latencies struct {
	Section   string  `json:"section"`
	Database  string  `json:"database"`
	Case      string  `json:"case"`
	Offered   int     `json:"offered_per_s,omitempty"`
	Committed float64 `json:"committed_per_s,omitempty"`
	Events    int     `json:"events"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
}

// check is a ratio of two figures, or a figure, and what it must be.
type check struct {
	Section  string  `json:"section"`
	Database string  `json:"database"`
	What     string  `json:"what"`
	Value    float64 `json:"value"`
	AtMost   bool    `json:"at_most"` // else at least
	Bound    float64 `json:"bound"`
	Pass     bool    `json:"pass"`
}

func (c check) String() string {
	verdict, sign := "PASS", "≥"
	if !c.Pass {
		verdict = "FAIL"
	}
	if c.AtMost {
		sign = "≤"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f\t(%s %.2f)\t", verdict, c.Section, c.Database, c.What, c.Value, sign, c.Bound)
}

func (r *report) add(c check) {
	c.Pass = c.Value >= c.Bound
	if c.AtMost {
		c.Pass = c.Value <= c.Bound
	}
	r.Checks = append(r.Checks, c)
}

func (r *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(r.Results) > 0 {
		fmt.Fprintln(w, "\nsection\tdatabase\tcase\tvalue\tunit\trounds\tserver an event\t")
	}
	for _, x := range r.Results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n",
			x.Section, x.Database, x.Case, figure(x.Value), x.Unit, spread(x.Rounds), serverCPU(x.ServerCPU))
	}
	_ = w.Flush()
	if len(r.Latencies) > 0 {
		fmt.Fprintln(w, "\nsection\tdatabase\tcase\toffered\tcommitted\ttimes\tp50\tp95\tp99\tmax, ms\t")
	}
	for _, x := range r.Latencies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t\n", x.Section, x.Database, x.Case,
			perSecond(float64(x.Offered)), perSecond(x.Committed), x.Events, x.P50, x.P95, x.P99, x.Max)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	for _, c := range r.Checks {
		fmt.Fprintln(w, c)
	}
	_ = w.Flush()
}

func perSecond(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f/s", n)
}

func serverCPU(us float64) string {
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f µs", us)
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

func (r *report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// failed is an error that names the checks that failed.
func (r *report) failed() error {
	var failed []string
	for _, c := range r.Checks {
		if !c.Pass {
			failed = append(failed, fmt.Sprintf("%s on %s: %s is %.2f", c.Section, c.Database, c.What, c.Value))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed:\n  %s", len(failed), len(r.Checks), strings.Join(failed, "\n  "))
}
