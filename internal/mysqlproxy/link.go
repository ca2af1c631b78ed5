package mysqlproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	sent           []string // since the last START TRANSACTION

	mu      sync.Mutex
	fault   *Fault        // whose reply must not reach the client
	swallow chan struct{} // closed by toClient, which keeps the next reply for itself
}

const (
	comQuery       = 0x03
	comStmtPrepare = 0x16
	errByte        = 0xff
)

// toServer passes packets of the client on.
func (l *link) toServer() {
	keepServer := false
	defer func() {
		_ = l.client.Close()
		if !keepServer {
			_ = l.server.Close()
		}
	}()
	in := bufio.NewReader(l.client)
	for {
		packet, err := readPacket(in)
		if err != nil {
			return
		}
		if len(packet) > 5 && packet[3] == 0 && (packet[4] == comQuery || packet[4] == comStmtPrepare) {
			if f := l.take(string(packet[5:])); f != nil {
				switch f.rule.Action {
				case CutRequest:
					if f.rule.Sever {
						l.proxy.Sever()
					}
					return
				case CutReply:
					l.setFault(f)
				case HoldRequest:
					l.setFault(f)
					_ = l.client.Close()
					select {
					case <-f.Forward:
					case <-l.proxy.stopped:
						return
					}
					keepServer = true // until it has answered; toClient closes it
					_, _ = l.server.Write(packet)
					return
				case Stall:
					select {
					case <-f.Forward:
					case <-f.Drop:
						return
					case <-l.proxy.stopped:
						return
					}
				case Answer:
					if !l.answer(f.rule.Error) {
						return
					}
					close(f.Done)
					continue
				}
			}
		}
		if _, err := l.server.Write(packet); err != nil {
			return
		}
	}
}

// answer answers the client in the server's place. It reports false when a connection is lost.
func (l *link) answer(e ServerError) bool {
	if e.RollsBack {
		swallowed := make(chan struct{})
		l.mu.Lock()
		l.swallow = swallowed
		l.mu.Unlock()
		if _, err := l.server.Write(newPacket(0, append([]byte{comQuery}, "ROLLBACK"...))); err != nil {
			return false
		}
		select {
		case <-swallowed:
		case <-l.proxy.stopped:
			return false
		}
	}
	body := binary.LittleEndian.AppendUint16([]byte{errByte}, e.Number)
	body = append(body, '#')
	body = append(body, e.State...)
	body = append(body, e.Message...)
	_, err := l.client.Write(newPacket(1, body))
	return err == nil
}

// toClient passes the server's packets back.
func (l *link) toClient() {
	defer func() {
		_ = l.client.Close()
		_ = l.server.Close()
		l.swallowed() // nothing more will come
	}()
	in := bufio.NewReader(l.server)
	for {
		packet, err := readPacket(in)
		if err != nil {
			return
		}
		if l.swallowed() {
			continue
		}
		if f := l.getFault(); f != nil {
			if f.rule.Sever {
				l.proxy.Sever()
			}
			close(f.Done)
			return
		}
		if _, err := l.client.Write(packet); err != nil && l.getFault() == nil {
			return
		}
	}
}

// swallowed reports whether a reply was to be kept from the client, and that it is.
func (l *link) swallowed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallow == nil {
		return false
	}
	close(l.swallow)
	l.swallow = nil
	return true
}

func (l *link) setFault(f *Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *link) getFault() *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// newPacket makes a packet with its header: three bytes of length and one of sequence.
func newPacket(sequence byte, body []byte) []byte {
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(body))) //nolint:gosec // a few bytes
	header[3] = sequence
	return append(header, body...)
}

// readPacket returns a packet with its header.
func readPacket(in io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32([]byte{header[0], header[1], header[2], 0})
	packet := make([]byte, 4+size)
	copy(packet, header[:])
	_, err := io.ReadFull(in, packet[4:])
	return packet, err
}
