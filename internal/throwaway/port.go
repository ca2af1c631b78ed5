package throwaway

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort picks a port of 127.0.0.1 that is free now. It stays below 32768, where
// Linux begins to take ports for outgoing connections: one of those could otherwise
// sit on the port between a kill and a restart.
func FreePort() (int, error) {
	for range 50 {
		port := 20000 + rand.IntN(12000)
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
