// Scratchbroker runs a throwaway broker until Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/outboxgen/outboxgen/internal/brokers"
)

func main() {
	log.SetFlags(0)
	name := flag.String("broker", "nats", "the `broker` to start: "+strings.Join(brokers.Names(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := brokers.Start(ctx, *name, func(line string) { log.Print(line) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is ready until Ctrl-C:\n\n  %s\n\n", server.What, server.URL)
	<-ctx.Done()
	server.Close()
}
