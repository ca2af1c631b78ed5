package record

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxgen/outboxgen/internal/fault"
)

// Cell is a place of the coverage table.
type Cell struct {
	Point    fault.Point
	Outcome  string
	Database string
	Broker   string // empty for a writer's points
}

func (c Cell) String() string {
	return strings.Trim(fmt.Sprintf("%s/%s/%s/%s", c.Point, c.Outcome, c.Database, c.Broker), "/")
}

// Coverage counts how often which fault happened, where. Use [NewCoverage] to make one.
type Coverage struct {
	databases, brokers []string
	hits               map[Cell]int
}

// NewCoverage makes an empty table for databases and brokers.
func NewCoverage(databases, brokers []string) *Coverage {
	return &Coverage{databases: databases, brokers: brokers, hits: map[Cell]int{}}
}

// Add counts a fault that happened n times. It is an error when the table has no such
// valid cell: then the runner, or the table, is wrong.
func (c *Coverage) Add(cell Cell, n int) error {
	if !needsBroker(cell.Point) {
		cell.Broker = ""
	}
	if !slices.Contains(c.Cells(), cell) {
		_, why := validOn(cell.Point, cell.Outcome, cell.Database)
		return fmt.Errorf("coverage: %v is no valid cell: %s", cell, why)
	}
	c.hits[cell] += n
	return nil
}

// Hits is how often a cell was hit.
func (c *Coverage) Hits(cell Cell) int { return c.hits[cell] }

// Cells are the valid ones, in the order of the points.
func (c *Coverage) Cells() []Cell {
	var cells []Cell
	for _, p := range fault.Points {
		brokers := []string{""}
		if needsBroker(p) {
			brokers = c.brokers
		}
		for _, outcome := range Outcomes {
			for _, db := range c.databases {
				if ok, _ := validOn(p, outcome, db); !ok {
					continue
				}
				for _, broker := range brokers {
					cells = append(cells, Cell{p, outcome, db, broker})
				}
			}
		}
	}
	return cells
}

// Missing are the valid cells with fewer than least hits.
func (c *Coverage) Missing(least int) []Cell {
	return slices.DeleteFunc(c.Cells(), func(cell Cell) bool { return c.hits[cell] >= least })
}

// WriteCSV writes a line for each valid cell, with a header.
func (c *Coverage) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"point", "outcome", "database", "broker", "hits"})
	for _, cell := range c.Cells() {
		_ = w.Write([]string{string(cell.Point), cell.Outcome, cell.Database, cell.Broker, strconv.Itoa(c.hits[cell])})
	}
	w.Flush()
	return w.Error()
}

// Markdown is a table of points by outcomes. A cell has the least hits of all databases
// and brokers; "–" says that the outcome can't happen there.
func (c *Coverage) Markdown() string {
	least := make(map[[2]string]int)
	for _, cell := range c.Cells() {
		key := [2]string{string(cell.Point), cell.Outcome}
		if n, ok := least[key]; !ok || c.hits[cell] < n {
			least[key] = c.hits[cell]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| point | %s |\n|---%s|\n", strings.Join(Outcomes, " | "), strings.Repeat("|---:", len(Outcomes)))
	for _, p := range fault.Points {
		fmt.Fprintf(&b, "| %s |", p)
		for _, outcome := range Outcomes {
			text := "–"
			if n, ok := least[[2]string{string(p), outcome}]; ok {
				text = strconv.Itoa(n)
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// CoverageSummary is what a record has of the table.
type CoverageSummary struct {
	Databases []string `yaml:"databases"`
	Brokers   []string `yaml:"brokers"`
	Cells     int      `yaml:"valid_cells"`
	Hits      int      `yaml:"hits"`
	Least     int      `yaml:"least_hits"` // that a cell has to have
	Empty     int      `yaml:"below_least"`
	Missing   []string `yaml:"missing,omitempty"`
}

// Summary sums the table up for a record; each cell has to have least hits.
func (c *Coverage) Summary(least int) *CoverageSummary {
	s := &CoverageSummary{Databases: c.databases, Brokers: c.brokers, Cells: len(c.Cells()), Least: least}
	for _, n := range c.hits {
		s.Hits += n
	}
	for _, cell := range c.Missing(least) {
		s.Empty++
		s.Missing = append(s.Missing, cell.String())
	}
	return s
}
