// Scratchnats runs a throwaway NATS server with JetStream until Ctrl-C.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/outboxgen/outboxgen/internal/natsserver"
)

func main() {
	server, err := natsserver.Start(natsserver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("NATS is ready until Ctrl-C:\n\n  %s\n\n", server.URL())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}
