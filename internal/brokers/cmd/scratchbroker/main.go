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
	server, err := brokers.Start(context.Background(), *name, func(line string) { log.Print(line) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is ready until Ctrl-C:\n\n  %s\n\n", server.What, server.URL)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}
