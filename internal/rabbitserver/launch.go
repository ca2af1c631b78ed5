package rabbitserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outboxgen/outboxgen/internal/throwaway"
)

const node = "rabbit@localhost"

func (s *Server) writeFiles() error {
	for name, text := range map[string]string{
		".erlang.cookie":  rand.Text(),
		"enabled_plugins": "[].\n",
		"rabbitmq.conf": fmt.Sprintf(`listeners.tcp.1 = %s
vm_memory_high_watermark.absolute = %d
disk_free_limit.absolute = 10MB
log.console = true
log.console.level = warning
log.file = false
`, s.Addr(), memoryLimit),
	} {
		// Erlang refuses a cookie that others can read.
		if err := os.WriteFile(filepath.Join(s.cfg.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// launch starts Erlang's virtual machine itself rather than through the package's
// scripts, which expect to be in /usr and to run as the user rabbitmq. The node has no
// epmd: its distribution listens on a port that we know.
func (s *Server) launch() (*throwaway.Process, error) {
	output, err := os.OpenFile(filepath.Join(s.cfg.Dir, "output.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd := exec.Command(filepath.Join(s.install.erts, "bin", "erlexec"),
		"-noinput", "-boot", "start_sasl", "-s", "rabbit", "boot",
		"-sname", node, "-start_epmd", "false", "-erl_epmd_port", strconv.Itoa(s.control),
		"-kernel", "inet_dist_use_interface", "{127,0,0,1}",
		"-kernel", "prevent_overlapping_partitions", "false",
		"-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false",
		"+W", "w", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none",
	)
	cmd.Dir = s.cfg.Dir
	cmd.Env = s.env()
	cmd.Stdout, cmd.Stderr = output, output
	return throwaway.Start(cmd)
}

func (s *Server) env() []string {
	dir := func(name string) string { return filepath.Join(s.cfg.Dir, name) }
	plugins := filepath.Join(s.install.home, "plugins")
	env := []string{
		"HOME=" + s.cfg.Dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"ROOTDIR=" + s.install.erlang, "BINDIR=" + filepath.Join(s.install.erts, "bin"), "EMU=beam", "PROGNAME=erl",
		"ERL_LIBS=" + plugins, "RABBITMQ_HOME=" + s.install.home, "RABBITMQ_PLUGINS_DIR=" + plugins,
		"RABBITMQ_NODENAME=" + node,
		"RABBITMQ_MNESIA_BASE=" + dir("data"), "RABBITMQ_LOG_BASE=" + dir("log"),
		"RABBITMQ_CONFIG_FILE=" + dir("rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + dir("enabled_plugins"),
		"RABBITMQ_CONF_ENV_FILE=" + dir("none"), "RABBITMQ_PID_FILE=" + dir("pid"),
	}
	if s.install.libs != "" {
		env = append(env, "LD_LIBRARY_PATH="+s.install.libs)
	}
	return env
}

// Eval runs Erlang expressions, the last of which ends with a dot, inside the server and
// returns what the last one yields. It is what rabbitmqctl does, in milliseconds.
func (s *Server) Eval(ctx context.Context, expressions string) (string, error) {
	if err := s.checkPrivate(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.install.call, "-address", "127.0.0.1:"+strconv.Itoa(s.control), "-e")
	cmd.Env = s.env()
	cmd.Dir = s.cfg.Dir
	cmd.Stdin = strings.NewReader(expressions + "\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ask the server: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	out := strings.TrimSpace(stdout.String())
	result, ok := strings.CutPrefix(out, "{ok, ")
	if !ok {
		return "", fmt.Errorf("ask the server: %s", out)
	}
	return strings.TrimSuffix(result, "}"), nil
}
