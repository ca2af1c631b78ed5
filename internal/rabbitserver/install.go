package rabbitserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// install is where a server's programs are.
type install struct {
	home   string // RabbitMQ's own folder
	erlang string // Erlang's root folder
	erts   string // its run-time system
	call   string // erl_call
	libs   string // folders of shared libraries that come with it
}

// UnavailableError says that no server can be had here, and what the reader can do.
type UnavailableError struct{ Reason string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf(`no RabbitMQ can be had on this machine: %s
Do one of these:
  - on Debian or Ubuntu, let apt reach its archive: the server is downloaded into the cache folder, not installed
  - name a server of your own, 3.10 or later, whose user may declare, delete and publish:
      export %s='amqp://user:password@127.0.0.1:5672/'
    Tests that kill the server or look inside it fail with it.`, e.Reason, EnvVar)
}

// find returns a server that is installed, or is or gets unpacked in the cache.
func find(ctx context.Context, progress func(string)) (install, error) {
	if inst, err := below("/"); err == nil {
		return inst, nil
	}
	cache, err := dbserver.CacheDir()
	if err != nil {
		return install{}, err
	}
	dir, err := dbserver.Unpack(ctx, "rabbitmq-server", cache, needed, progress)
	if err != nil {
		if ctx.Err() != nil {
			return install{}, fmt.Errorf("download rabbitmq: %w", err)
		}
		return install{}, &UnavailableError{err.Error()}
	}
	inst, err := below(dir)
	if err != nil {
		return install{}, fmt.Errorf("rabbitmq was downloaded but is not as expected; remove %s to try anew: %w", dir, err)
	}
	inst.libs, err = libraries(dir)
	return inst, err
}

// needed picks the server, Erlang and their libraries from what the package depends on.
// The C library is the machine's own, of the same release.
func needed(deb string) bool { return wanted.MatchString(deb) && !strings.HasPrefix(deb, "libc") }

var wanted = regexp.MustCompile(`^(rabbitmq-server|erlang-[a-z0-9-]+|lib[a-z0-9.+-]+|zlib1g)_`)

// below looks below root for the folders of Debian's packages.
func below(root string) (install, error) {
	home, err := one(filepath.Join(root, "usr/lib/rabbitmq/lib/rabbitmq_server-*"))
	if err != nil {
		return install{}, err
	}
	inst := install{home: home, erlang: filepath.Join(root, "usr/lib/erlang")}
	if inst.erts, err = one(filepath.Join(inst.erlang, "erts-*")); err != nil {
		return install{}, err
	}
	for _, dir := range []string{filepath.Join(inst.erlang, "bin"), filepath.Join(inst.erts, "bin"), filepath.Join(root, "usr/bin")} {
		path := filepath.Join(dir, "erl_call")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			inst.call = path
			return inst, nil
		}
	}
	return install{}, errors.New("there is no erl_call")
}

func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("want one %s, found %d", pattern, len(found))
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

func libraries(dir string) (string, error) {
	var all []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	return strings.Join(all, ":"), nil
}
