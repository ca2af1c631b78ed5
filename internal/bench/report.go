package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// report is what a run found.
type report struct {
	Machine   machine             `json:"machine"`
	Databases map[string]database `json:"databases"`
	Events    int                 `json:"events"`
	Rounds    int                 `json:"rounds"`
	Results   []result            `json:"results"`
	Latencies []latencies         `json:"latencies"`
	Checks    []check             `json:"checks"`
}

// database is a server.
type database struct {
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

func (d database) String() string {
	text := d.Version
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		text += ", " + name + " " + d.Settings[name]
	}
	return text
}

type machine struct {
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
	OS   string `json:"os"`
}

func newReport(s settings) *report {
	return &report{
		Machine:   machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH},
		Databases: map[string]database{},
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

	Duplicates *int64 `json:"duplicates,omitempty"` // of end-to-end measurements
}

// check is a ratio of two figures, or a figure, and what it must be.
type check struct {
	Section  string  `json:"section"`
	Database string  `json:"database"`
	What     string  `json:"what"`
	Value    float64 `json:"value"`

	Rounds []float64 `json:"rounds,omitempty"` // of which Value is the middle

	AtMost bool    `json:"at_most"` // else at least
	Bound  float64 `json:"bound"`
	Pass   bool    `json:"pass"`
}

func (r *report) add(c check) {
	c.Pass = c.Value >= c.Bound
	if c.AtMost {
		c.Pass = c.Value <= c.Bound
	}
	r.Checks = append(r.Checks, c)
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
