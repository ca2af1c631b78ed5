package rabbitserver

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
)

// A server's life: it boots, answers, is killed, comes back with what it had, and leaves
// nothing behind.
func TestServer(t *testing.T) {
	s, err := Start(t.Context(), Config{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.checkPrivate(); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Eval(t.Context(), `1 + 1.`); err != nil || out != "2" {
		t.Errorf("eval: %q, %v", out, err)
	}
	if _, err := s.Eval(t.Context(), `no_such_module:f().`); err == nil {
		t.Error("an expression that fails is no error")
	}
	for _, on := range []bool{true, false} {
		if err := s.MemoryAlarm(t.Context(), on); err != nil {
			t.Fatal(err)
		}
		out, err := s.Eval(t.Context(), `rabbit_alarm:get_alarms().`)
		if err != nil || strings.Contains(out, "memory") != on {
			t.Errorf("alarms: %s, %v; want memory: %v", out, err, on)
		}
	}
	declare := `rabbit_vhost:add(<<"kept">>, <<"test">>).`
	if _, err := s.Eval(t.Context(), declare); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Fatal("the server takes connections after a kill")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Eval(t.Context(), `rabbit_vhost:exists(<<"kept">>).`); err != nil || out != "true" {
		t.Errorf("after a kill and a restart: %q, %v; want what was there", out, err)
	}
	dir := s.cfg.Dir
	s.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestExternalServer(t *testing.T) {
	t.Setenv(EnvVar, "amqp://guest:guest@example.invalid/")
	s := StartT(t, Config{})
	if s.URL() != "amqp://guest:guest@example.invalid/" {
		t.Errorf("URL %s", s.URL())
	}
	if err := s.Kill(); err == nil || !strings.Contains(err.Error(), EnvVar) {
		t.Errorf("kill: %v, want an error that says what to do", err)
	}
}

func TestNeededPackages(t *testing.T) {
	for deb, want := range map[string]bool{
		"rabbitmq-server_3.10.8-1.1+deb12u1_all.deb": true,
		"erlang-base_1%3a25.2.3_amd64.deb":           true,
		"libssl3_3.0.19_amd64.deb":                   true,
		"zlib1g_1.2.13_amd64.deb":                    true,
		"libc6_2.36_amd64.deb":                       false,
		"python3_3.11_amd64.deb":                     false,
		"adduser_3.134_all.deb":                      false,
	} {
		if needed(deb) != want {
			t.Errorf("needed(%s) = %v", deb, !want)
		}
	}
}
