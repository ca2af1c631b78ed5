// Scratchrabbitmq runs a throwaway RabbitMQ server until Ctrl-C.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/outboxgen/outboxgen/internal/rabbitserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := rabbitserver.Start(ctx, rabbitserver.Config{Progress: func(line string) { log.Print(line) }})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("RabbitMQ is ready until Ctrl-C:\n\n  %s\n\n", server.URL())
	<-ctx.Done()
	server.Close()
}
