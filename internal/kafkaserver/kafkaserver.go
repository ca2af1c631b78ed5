// Package kafkaserver runs a real, private Apache Kafka (KRaft) for tests: one broker,
// or three, the first of which is the controller too.
package kafkaserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/throwaway"
)

// Cluster is a running Kafka.
type Cluster struct {
	libs  string
	nodes []*node
}

// node is one broker.
type node struct {
	dir, addr string
	mu        sync.Mutex
	cmd       *exec.Cmd // nil while it is down
	done      chan struct{}
}

// startTimeout bounds a broker's start. One takes five seconds on two cores.
const startTimeout = 90 * time.Second

// Start runs so many brokers on free ports with their data below dir, and waits until
// they take connections.
func Start(ctx context.Context, dir string, brokers int) (*Cluster, error) {
	libs, err := jars(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{libs: libs}
	ports, err := freePorts(brokers + 1)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	clusterID := base64.RawURLEncoding.EncodeToString(id)
	for i := range brokers {
		n := &node{dir: filepath.Join(dir, fmt.Sprint("node", i+1)), addr: fmt.Sprint("127.0.0.1:", ports[i])}
		c.nodes = append(c.nodes, n)
		if err := os.MkdirAll(n.dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(n.file("server.properties"), []byte(properties(i+1, brokers, n, ports[brokers])), 0o600); err != nil {
			return nil, err
		}
		out, err := c.java(ctx, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.file("server.properties")).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("format the storage of broker %d: %w\n%s", i+1, err, out)
		}
	}
	var starting sync.WaitGroup
	errs := make([]error, brokers)
	for i := range c.nodes {
		starting.Go(func() { errs[i] = c.StartBroker(i) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

func properties(id, brokers int, n *node, controllerPort int) string {
	roles, listeners := "broker", "PLAINTEXT://"+n.addr
	if id == 1 {
		roles = "broker,controller"
		listeners += fmt.Sprint(",CONTROLLER://127.0.0.1:", controllerPort)
	}
	replicas := min(brokers, 3)
	return strings.Join([]string{
		"process.roles=" + roles,
		fmt.Sprint("node.id=", id),
		fmt.Sprint("controller.quorum.voters=1@127.0.0.1:", controllerPort),
		"listeners=" + listeners,
		"advertised.listeners=PLAINTEXT://" + n.addr,
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + n.file("data"),
		"auto.create.topics.enable=false",
		fmt.Sprint("offsets.topic.replication.factor=", replicas),
		"offsets.topic.num.partitions=3",
		fmt.Sprint("transaction.state.log.replication.factor=", replicas),
		"transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=500",
		// A dead broker is found out within seconds.
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
		"replica.lag.time.max.ms=3000",
		"",
	}, "\n")
}

func (n *node) file(name string) string { return filepath.Join(n.dir, name) }

func (c *Cluster) java(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx400m", "-XX:+UseSerialGC", "-cp", filepath.Join(c.libs, "*")}, args...)...)
}

// Brokers are the addresses.
func (c *Cluster) Brokers() []string {
	all := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = n.addr
	}
	return all
}

// StartBroker starts a broker that is down, counted from 0, on its data and its port.
func (c *Cluster) StartBroker(i int) error {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	log, err := os.OpenFile(n.file("output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = c.java(context.Background(), "kafka.Kafka", n.file("server.properties"))
	n.cmd.Stdout, n.cmd.Stderr, n.cmd.SysProcAttr = log, log, brokerAttr()
	n.done = make(chan struct{})
	started := make(chan error, 1)
	go func(cmd *exec.Cmd, done chan struct{}) {
		// The death signal comes with the end of the thread that started the
		// broker (prctl(2), PR_SET_PDEATHSIG), so that one is kept for it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}(n.cmd, n.done)
	if err := <-started; err != nil {
		return fmt.Errorf("start broker %d: %w", i+1, err)
	}
	for deadline := time.Now().Add(startTimeout); ; {
		conn, err := net.DialTimeout("tcp", n.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-n.done:
			out, _ := os.ReadFile(n.file("output.log"))
			return fmt.Errorf("broker %d ended while it started:\n%s", i+1, out)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("broker %d takes no connections after %v", i+1, startTimeout)
		}
	}
}

// KillBroker ends a broker, counted from 0, without a farewell.
func (c *Cluster) KillBroker(i int) {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	<-n.done
	n.cmd = nil
}

// Stop ends all brokers.
func (c *Cluster) Stop() {
	for i := range c.nodes {
		c.KillBroker(i)
	}
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for len(ports) < n {
		port, err := throwaway.FreePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
