package verify

import (
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/fault"
	"github.com/outboxgen/outboxgen/internal/record"
)

// outcomeError is that of the injection whose error belongs to no column of the coverage table.
const outcomeError = "error"

// injectionOutcomes say how the required injections are brought about here.
var injectionOutcomes = map[string]string{
	record.BeforeCommit:      record.OutcomeKill,
	record.CommitReplyLost:   record.OutcomeCutReply,
	record.BeforeClaim:       record.OutcomeKill,
	record.ConfirmedUnmarked: record.OutcomeKill,
	record.ExpiredLease:      record.OutcomeStop,
	record.CommittedUnacked:  record.OutcomeKill,
	record.DedupError:        outcomeError,
}

// coverage is an empty table of what the configuration asks for.
func (c *Config) coverage() *record.Coverage {
	databases := make([]string, len(c.Databases))
	for i, f := range c.Databases {
		databases[i] = string(f)
	}
	return record.NewCoverage(databases, c.Brokers)
}

// Plan returns the experiments of a run: Count of every valid cell, or with Sparse of every point
// and outcome, on databases and brokers in turns; and the required injections on each of these.
func (c *Config) Plan() []Experiment {
	var plan []Experiment
	add := func(e Experiment) {
		if c.selects(e) {
			e.Seed = c.Seed + uint64(len(plan))
			plan = append(plan, e)
		}
	}
	for _, required := range record.RequiredInjections() {
		for _, db := range c.Databases {
			for _, broker := range c.Brokers {
				add(Experiment{
					Point: required.Point, Outcome: injectionOutcomes[required.ID], Injection: required.ID, Database: db, Broker: broker,
				})
			}
		}
	}
	cells := c.coverage().Cells()
	if c.Sparse {
		cells = c.sparse(cells)
	}
	for n := range c.Count {
		for i, cell := range cells {
			e := Experiment{
				Point: cell.Point, Outcome: cell.Outcome, Database: dbserver.Flavor(cell.Database), Broker: cell.Broker,
			}
			if e.Broker == "" {
				e.Broker = c.Brokers[(i+n)%len(c.Brokers)]
			}
			add(e)
		}
	}
	return plan
}

// row is a line and a column of the coverage table.
type row struct {
	point   fault.Point
	outcome string
}

// sparse takes one cell of each row, databases and brokers in turns. Where the broker is to be killed
// it takes one that can be.
func (c *Config) sparse(cells []record.Cell) []record.Cell {
	byRow := map[row][]record.Cell{}
	var rows []row
	for _, cell := range cells {
		r := row{cell.Point, cell.Outcome}
		if byRow[r] == nil {
			rows = append(rows, r)
		}
		byRow[r] = append(byRow[r], cell)
	}
	var out []record.Cell
	for i, r := range rows {
		choice := byRow[r]
		if r.outcome == record.OutcomePeerKilled && brokerPoints[r.point] && len(c.Brokers) > 1 {
			choice = slices.DeleteFunc(choice, func(cell record.Cell) bool { return cell.Broker == "kafka" })
		}
		out = append(out, choice[i%len(choice)])
	}
	return out
}

// selects reports whether Only lets an experiment through.
func (c *Config) selects(e Experiment) bool {
	if c.Only == "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(c.Only, ","), func(only string) bool {
		if e.Injection != "" {
			return only == e.Injection
		}
		point, outcome, ok := strings.Cut(only, "/")
		return point == string(e.Point) && (!ok || outcome == e.Outcome)
	})
}
