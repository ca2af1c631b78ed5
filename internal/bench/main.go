// Command bench measures how fast a relay drains an outbox, beside a bare loop of
// the same statements without our code, in the same run.
//
// The servers come from OUTBOXGEN_MYSQL_DSN and OUTBOXGEN_MARIADB_DSN; `make
// bench` starts private ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

type settings struct {
	events int
	sizes  []int
	rounds int
	batch  int
}

func main() {
	var (
		s     settings
		sizes string
	)
	flag.IntVar(&s.events, "events", 100_000, "events waiting at the start")
	flag.StringVar(&sizes, "sizes", "300,4096", "bytes of payload, a comma between")
	flag.IntVar(&s.rounds, "rounds", 2, "rounds, each of both loops, in turn the one and the other first; the means are compared")
	flag.IntVar(&s.batch, "batch", 500, "events a claim")
	flag.Parse()
	for _, size := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "bench: -sizes: %q is not a number of bytes\n", size)
			os.Exit(2)
		}
		s.sizes = append(s.sizes, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// leastRatio is what the relay must reach of the bare loop's rate.
const leastRatio = 0.9

func run(ctx context.Context, s settings) error {
	fmt.Printf("%d events, batches of %d, %d rounds, %d CPUs, %s\n\n",
		s.events, s.batch, s.rounds, runtime.NumCPU(), runtime.Version())
	var (
		rows []string
		slow []string
	)
	for _, flavor := range dbserver.Flavors() {
		dsn := os.Getenv(flavor.EnvVar())
		if dsn == "" {
			return fmt.Errorf("no %s server: run `make bench`, or set %s to a DSN", flavor, flavor.EnvVar())
		}
		for _, size := range s.sizes {
			r, err := measure(ctx, s, dsn, size)
			if err != nil {
				return fmt.Errorf("%s, %d B: %w", flavor, size, err)
			}
			name := fmt.Sprintf("%s\t%d B", flavor, size)
			rows = append(rows, fmt.Sprintf("%s\t%.0f\t%.0f\t%.2f\t", name, r.relay, r.bare, r.ratio()))
			if r.ratio() < leastRatio {
				slow = append(slow, strings.ReplaceAll(name, "\t", ", "))
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\ndatabase\tpayload\trelay, events/s\tbare loop, events/s\tratio\t")
	for _, row := range rows {
		fmt.Fprintln(out, row)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(slow) > 0 {
		return fmt.Errorf("below %.1f of the bare loop: %s", leastRatio, strings.Join(slow, "; "))
	}
	return nil
}

// result has the mean rates of a case, in events a second.
type result struct{ relay, bare float64 }

func (r result) ratio() float64 { return r.relay / r.bare }

func measure(ctx context.Context, s settings, dsn string, size int) (result, error) {
	b, err := newBox(ctx, dsn, s.events, size)
	if err != nil {
		return result{}, err
	}
	defer b.close()
	var relay, bare []float64
	for round := range s.rounds {
		loops := []loop{{"bare loop", bareLoop, &bare}, {"relay", relayLoop, &relay}}
		if round%2 == 1 {
			slices.Reverse(loops) // neither has the warmer server
		}
		for _, loop := range loops {
			if err := b.refill(ctx); err != nil {
				return result{}, err
			}
			start := time.Now()
			if err := loop.run(ctx, b, s); err != nil {
				return result{}, errors.Join(fmt.Errorf("%s", loop.name), err)
			}
			rate := float64(s.events) / time.Since(start).Seconds()
			*loop.rates = append(*loop.rates, rate)
			fmt.Printf("round %d, %4d B, %-9s %6.0f events/s\n", round+1, size, loop.name, rate)
		}
	}
	return result{relay: mean(relay), bare: mean(bare)}, nil
}

// loop is one way to drain.
type loop struct {
	name  string
	run   func(context.Context, *box, settings) error
	rates *[]float64
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
