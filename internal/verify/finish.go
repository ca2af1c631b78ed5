package verify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/record"
)

// clientModules are the brokers' clients.
var clientModules = []string{
	"github.com/nats-io/nats.go", "github.com/rabbitmq/amqp091-go", "github.com/twmb/franz-go",
}

// finish judges the run as a whole and writes its files.
func (r *run) finish(ctx context.Context) error {
	if r.Only != "" { // a part says nothing of the whole
		if r.failed > 0 {
			return ErrFailed
		}
		return nil
	}
	r.sortInjections()
	r.record.ExperimentID = uuid.NewString()
	r.record.Seconds = time.Since(r.began).Round(100 * time.Millisecond).Seconds()
	r.record.Command, r.record.Seed = r.Command, strconv.FormatUint(r.Seed, 10)
	r.record.Versions = r.versions(ctx)
	r.record.Coverage = r.coverage.Summary(r.Count)
	if r.Sparse {
		r.record.Coverage.Missing, r.record.Coverage.Empty = r.emptyRows(), len(r.emptyRows())
	}
	result := r.record.Judge()
	if r.failed > 0 && result == record.Pass {
		result = record.Fail // an experiment that didn't come to its end has no verdict
		r.record.Result = result
	}
	for _, cell := range r.record.Coverage.Missing {
		r.say("empty cell: %s", cell)
	}
	for _, i := range r.record.Invariants {
		r.say("%-4s %-10s %5d runs judged, %d failed: %s", i.ID, i.Result, i.Judged, i.Failed, i.Claim)
	}
	r.say("%s: %d experiments in %.0f s, %d tried again", result, r.done, r.record.Seconds, r.retried)
	if err := r.write(); err != nil {
		return err
	}
	if result != record.Pass || r.failed > 0 {
		return ErrFailed
	}
	return nil
}

// sortInjections puts them into the order of the required ones, then of databases and brokers.
func (r *run) sortInjections() {
	place := map[string]int{}
	for i, required := range record.RequiredInjections() {
		place[required.ID] = i
	}
	slices.SortFunc(r.record.Injections, func(a, b record.Injection) int {
		return cmp.Or(cmp.Compare(place[a.ID], place[b.ID]), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Broker, b.Broker))
	})
}

// emptyRows are the points with an outcome that happened nowhere often enough.
func (r *run) emptyRows() []string {
	var empty []string
	for _, cell := range r.coverage.Cells() {
		name := string(cell.Point) + "/" + cell.Outcome
		if r.rows[row{cell.Point, cell.Outcome}] < r.Count && !slices.Contains(empty, name) {
			empty = append(empty, name)
		}
	}
	return empty
}

func (r *run) versions(ctx context.Context) record.Versions {
	v := r.record.Versions // of the build, taken when the run began
	for _, f := range r.Databases {
		for _, l := range r.lanes {
			if d := l.databases[f]; d != nil {
				v.Servers = append(v.Servers, d.version(ctx))
				break
			}
		}
	}
	for _, name := range r.Brokers {
		if b := r.world.brokers[name]; b != nil {
			v.Brokers = append(v.Brokers, b.version())
		}
	}
	for _, path := range clientModules {
		v.Clients = append(v.Clients, record.ModuleVersion(path))
	}
	return v
}

func (r *run) write() error {
	if r.Dir == "" {
		return nil
	}
	if err := r.record.Write(filepath.Join(r.Dir, record.FileName)); err != nil {
		return err
	}
	var csv bytes.Buffer
	if err := r.coverage.WriteCSV(&csv); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"coverage.csv": csv.Bytes(),
		"coverage.md":  []byte(r.coverage.Markdown()),
	} {
		if err := os.WriteFile(filepath.Join(r.Dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write the coverage: %w", err)
		}
	}
	r.say("the record is %s", filepath.Join(r.Dir, record.FileName))
	return nil
}
