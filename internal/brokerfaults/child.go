package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/outboxgen/outboxgen/internal/natsserver"
	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// A NATS server that can be killed is this program again, with these set.
const (
	envDir  = "OUTBOXGEN_BROKERFAULTS_NATS_DIR"
	envPort = "OUTBOXGEN_BROKERFAULTS_NATS_PORT"
)

// childIfAsked runs a NATS server until it is killed, when this is the process for one.
func childIfAsked() {
	dir := os.Getenv(envDir)
	if dir == "" {
		return
	}
	port, err := strconv.Atoi(os.Getenv(envPort))
	if err == nil {
		_, err = natsserver.Start(natsserver.Config{Dir: dir, Port: port})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // its end is the end of who started this
	os.Exit(1)
}

// startChild returns when the server takes connections.
func startChild(ctx context.Context, dir string, port int) (*throwaway.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envDir+"="+dir, envPort+"="+strconv.Itoa(port))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // never written to: see childIfAsked
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	child, err := throwaway.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, child.Kill)()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		child.Kill()
		return nil, errors.Join(fmt.Errorf("the NATS server said %q", line), err, ctx.Err())
	}
	return child, nil
}
