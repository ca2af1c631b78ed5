package dbserver

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Binary is a server program that can be started.
type Binary struct {
	Flavor  Flavor
	Version string // as --version prints it: 9.7.4-2, 10.11.18-MariaDB-0+deb12u1
	Path    string // the mysqld or mariadbd
	Where   string // for people: "installed" or "cache"

	base   string   // the usr folder that the program belongs to: --basedir
	loader []string // the dynamic loader and its options, if one is named
	own    bool     // brings its own C library: keep the machine's out
}

// errNotFound: neither on the machine nor in the cache.
var errNotFound = errors.New("no server found")

// Find returns a server that is already here, on the machine or in the
// cache folder cache, and never downloads. An *UnavailableError says that
// there is none.
func Find(ctx context.Context, f Flavor, cache string) (*Binary, error) {
	bin, note, err := find(ctx, f, cache)
	if errors.Is(err, errNotFound) {
		return nil, &UnavailableError{f, "it is neither installed nor in the cache" + note}
	}
	return bin, err
}

// Install is Find, then a download with apt where that is possible.
// progress gets one plain line a step. It may be nil.
func Install(ctx context.Context, f Flavor, cache string, progress func(string)) (*Binary, error) {
	if progress == nil {
		progress = func(string) {}
	}
	bin, note, err := find(ctx, f, cache)
	if !errors.Is(err, errNotFound) {
		return bin, err
	}
	if err := checkCachePath(cache); err != nil {
		return nil, err
	}
	plan, err := planApt("/", f)
	if err != nil {
		return nil, &UnavailableError{f, err.Error() + note}
	}
	dir, err := plan.cached(ctx, cache, plan.download, progress)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("download %v: %w", f, err)
		}
		return nil, &UnavailableError{f, "the download failed: " + err.Error()}
	}
	bin, err = unpacked(ctx, f, dir)
	if err != nil {
		return nil, fmt.Errorf("%v was downloaded but does not run; remove %s to try anew: %w", f, dir, err)
	}
	return bin, nil
}

// find also returns a note on a server that it passed over.
func find(ctx context.Context, f Flavor, cache string) (*Binary, string, error) {
	note := ""
	for _, path := range candidates(f) {
		bin, err := probe(ctx, &Binary{Path: path, Where: "installed"})
		if err != nil || bin.Flavor != f {
			continue
		}
		if versionLess(bin.Version, f.oldest()) {
			note = fmt.Sprintf(" (%s is %s, older than %s)", path, bin.Version, f.oldest())
			continue
		}
		bin.base = filepath.Dir(filepath.Dir(path))
		if interp, err := interpreter(path); err == nil && confined() {
			bin.loader = []string{interp}
		}
		return bin, note, nil
	}
	dirs, err := filepath.Glob(filepath.Join(cache, "servers", string(f)+"-*"))
	if err != nil {
		return nil, note, err
	}
	for _, dir := range dirs {
		if ext := filepath.Ext(dir); ext == ".lock" || ext == ".partial" {
			continue
		}
		// One that does not run, of another machine kind say, is passed over.
		if bin, err := unpacked(ctx, f, dir); err == nil {
			return bin, note, nil
		}
	}
	return nil, note, errNotFound
}

// candidates are files that may be the flavor's server, symbolic links
// resolved: the files that a server needs lie beside the real one.
func candidates(f Flavor) []string {
	dirs := append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin",
		"/usr/local/opt/mysql/bin", "/usr/local/opt/mariadb/bin",
		"/opt/homebrew/opt/mysql/bin", "/opt/homebrew/opt/mariadb/bin")
	var out []string
	seen := map[string]bool{}
	for _, name := range f.binaryNames() {
		for _, dir := range dirs {
			path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
			if err != nil || seen[path] {
				continue
			}
			seen[path] = true
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				out = append(out, path)
			}
		}
	}
	return out
}

// unpacked is the server in a folder of the cache, started through that
// folder's own dynamic loader with that folder's own libraries.
func unpacked(ctx context.Context, f Flavor, dir string) (*Binary, error) {
	bin := &Binary{Where: "cache", base: filepath.Join(dir, "usr"), own: true}
	for _, name := range f.binaryNames() {
		path := filepath.Join(bin.base, "sbin", name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			bin.Path = path
		}
	}
	if bin.Path == "" {
		return nil, fmt.Errorf("%s has no %v in usr/sbin", dir, f)
	}
	interp, err := interpreter(bin.Path)
	if err != nil {
		return nil, err
	}
	// The link that interp names is absolute in some releases and would lead
	// to the machine's own loader, hence the search in the library folders.
	libs := []string{}
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		libs = append(libs, found...)
	}
	for _, lib := range libs {
		loader := filepath.Join(lib, filepath.Base(interp))
		if _, err := os.Stat(loader); err == nil {
			bin.loader = []string{loader, "--library-path", strings.Join(libs, ":")}
		}
	}
	if bin.loader == nil {
		return nil, fmt.Errorf("%s has no %s", dir, filepath.Base(interp))
	}
	bin, err = probe(ctx, bin)
	if err == nil && bin.Flavor != f {
		err = fmt.Errorf("%s is %v", bin.Path, bin.Flavor)
	}
	return bin, err
}

// probe asks the program what it is.
func probe(ctx context.Context, bin *Binary) (*Binary, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	argv := bin.argv("--no-defaults", "--version")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = bin.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w: %s", bin.Path, err, tail(string(out), 3))
	}
	bin.Flavor, bin.Version, err = parseVersion(string(out))
	return bin, err
}

func (b *Binary) argv(args ...string) []string {
	argv := append([]string{}, b.loader...)
	argv = append(argv, b.Path)
	return append(argv, args...)
}

// env is short on purpose: a preloaded library of the machine would meet a
// foreign C library, and MYSQL_* variables change a server's settings.
func (b *Binary) env() []string {
	env := []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	if b.own {
		// It may name modules built for the machine's own OpenSSL.
		env = append(env, "OPENSSL_CONF=/dev/null")
	}
	return env
}

// confined reports whether AppArmor is on. Ubuntu's profile for an installed
// mysqld denies every data folder but the system's. A profile goes by the
// program that is executed, so there the server runs through its loader.
func confined() bool {
	state, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(state), "Y")
}

// interpreter is the dynamic loader that an ELF program asks for.
func interpreter(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	section := file.Section(".interp")
	if section == nil {
		return "", fmt.Errorf("%s names no dynamic loader", path)
	}
	data, err := section.Data()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimRight(string(data), "\x00"), nil
}
