package dbserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// An aptPlan says where a flavor's packages come from on this machine.
type aptPlan struct {
	flavor     Flavor
	system     string // debian or ubuntu
	suite      string
	suites     []string // suite, and its updates where the machine has them
	components []string
	from       source
}

// name tells one unpacked server from another in the cache.
func (p aptPlan) name() string {
	return strings.Join([]string{string(p.flavor), p.system, p.suite, runtime.GOARCH}, "-")
}

// planApt decides from the machine's own configuration, read below root
// ("/" outside tests), and asks nobody else.
func planApt(root string, f Flavor) (aptPlan, error) {
	release, err := readOSRelease(root)
	if err != nil {
		return aptPlan{}, err
	}
	system, codename := release["ID"], release["VERSION_CODENAME"]
	if (system != "debian" && system != "ubuntu") || codename == "" {
		return aptPlan{}, errors.New("it is not installed, and only on Debian and Ubuntu can it be downloaded")
	}
	all, err := readSources(filepath.Join(root, "etc/apt"))
	if err != nil {
		return aptPlan{}, fmt.Errorf("read apt's sources: %w", err)
	}
	names := []string{codename}
	if system == "debian" {
		names = append(names, "stable", "testing", "unstable", "sid", "oldstable")
	}
	from, suite, err := mainArchive(all, system, names)
	if err != nil {
		return aptPlan{}, err
	}
	plan := aptPlan{flavor: f, system: system, suite: suite, components: []string{"main"}, from: from}
	switch {
	case system == "ubuntu":
		plan.components = append(plan.components, "universe") // has MariaDB
	case f == MySQL:
		// Debian keeps MySQL out of its releases; only unstable has it. The
		// packages bring their own C library, so the mixture is harmless.
		plan.suite = "unstable"
		plan.from.options = withWholeKeyring(root, from.options)
		plan.suites = []string{plan.suite}
		return plan, nil
	}
	plan.suites = []string{suite}
	for _, s := range all {
		for _, more := range s.suites {
			known := slices.Contains(plan.suites, more)
			if !known && slices.Equal(s.uris, from.uris) && (more == suite+"-updates" || more == suite+"-security") {
				plan.suites = append(plan.suites, more)
			}
		}
	}
	return plan, nil
}

// withWholeKeyring replaces the keyring of one Debian release by the one of
// all releases, where an entry is limited to the first: unstable is signed
// with the keys of several.
func withWholeKeyring(root string, options map[string]string) map[string]string {
	keyring := options["signed-by"]
	if !strings.HasPrefix(filepath.Base(keyring), "debian-archive-") {
		return options
	}
	whole := filepath.Join(filepath.Dir(keyring), "debian-archive-keyring"+filepath.Ext(keyring))
	if _, err := os.Stat(filepath.Join(root, whole)); err != nil {
		return options
	}
	out := map[string]string{}
	for name, value := range options {
		out[name] = value
	}
	out["signed-by"] = whole
	return out
}

func readOSRelease(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join(root, "usr/lib/os-release"))
	}
	if os.IsNotExist(err) {
		return nil, nil // no Linux distribution: no value of ID will match
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[name] = strings.Trim(value, `"'`)
		}
	}
	return out, nil
}

// download unpacks the flavor's server package and all that it depends on,
// the C library included, into dir, which it creates.
func (p aptPlan) download(ctx context.Context, dir string, progress func(string)) error {
	pattern := fmt.Sprintf(`^%s-server-core(-[0-9.]+)?$`, p.flavor)
	choose := func(found string) string { return newestPackage(string(p.flavor)+"-server-core", found) }
	everything := func(string) bool { return true }
	if err := p.unpack(ctx, dir, pattern, choose, everything, progress); err != nil {
		return err
	}
	return prune(dir)
}

// unpack downloads the package that choose picks from what apt-cache search finds of
// pattern, with all that it depends on, and unpacks the packages that keep holds for.
func (p aptPlan) unpack(ctx context.Context, dir, pattern string, choose func(found string) string, keep func(deb string) bool, progress func(string)) error {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not in PATH", tool)
		}
	}
	// Among the temporary files and readable by all, so that apt run by root
	// can still fetch as its unprivileged user.
	work, err := os.MkdirTemp("", "outboxgen-apt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	conf, err := p.writeConfig(work)
	if err != nil {
		return err
	}

	progress(fmt.Sprintf("%v: reading the package list of %s %s with apt (about 10 MB)", p.flavor, p.system, strings.Join(p.suites, ", ")))
	// Without this option a mirror that is down is only a warning to apt.
	if _, err := command(ctx, "apt-get", "-c", conf, "-q", "-o", "APT::Update::Error-Mode=any", "update"); err != nil {
		return err
	}
	found, err := command(ctx, "apt-cache", "-c", conf, "search", "--names-only", pattern)
	if err != nil {
		return err
	}
	pkg := choose(found)
	if pkg == "" {
		return fmt.Errorf("%s %s has no package that matches %s", p.system, p.suite, pattern)
	}
	progress(fmt.Sprintf("%v: downloading %s and what it needs (15 to 70 MB); nothing gets installed", p.flavor, pkg))
	if _, err := command(ctx, "apt-get", "-c", conf, "-q", "-y", "--download-only", "install", pkg); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(work, "cache/archives/*.deb"))
	if err != nil {
		return err
	}
	debs = slices.DeleteFunc(debs, func(path string) bool { return !keep(filepath.Base(path)) })
	if len(debs) == 0 {
		return fmt.Errorf("apt-get reported no error but downloaded nothing for %s", pkg)
	}
	progress(fmt.Sprintf("%v: unpacking %d packages into the cache", p.flavor, len(debs)))
	for _, deb := range debs {
		if _, err := command(ctx, "dpkg-deb", "-x", deb, dir); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig lays out an apt world of its own in dir: lists, cache, state,
// sources and an empty record of installed packages, so that the machine's
// stay as they are and every dependency is fetched. The machine's other
// settings (proxy, credentials, certificates) still hold.
func (p aptPlan) writeConfig(dir string) (string, error) {
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	conf := fmt.Sprintf(`# Hooks of the machine, some of which clear its cache or write its logs.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State "%[1]s/state";
Dir::State::lists "%[1]s/state/lists";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Cache::archives "%[1]s/cache/archives";
Dir::Log "%[1]s";
Dir::Etc::sourcelist "%[1]s/outboxgen.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Default-Release "";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::Retries "3";
`, dir)
	for name, text := range map[string]string{
		"status":            "",
		"outboxgen.sources": p.from.deb822(p.suites, p.components),
		"apt.conf":          conf,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "apt.conf"), nil
}

// newestPackage picks base itself, else base-X.Y with the highest version,
// from the output of apt-cache search.
func newestPackage(base, search string) string {
	best := ""
	for line := range strings.Lines(search) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		version, ok := strings.CutPrefix(name, base+"-")
		switch {
		case name == base:
			return name
		case ok && (best == "" || versionLess(strings.TrimPrefix(best, base+"-"), version)):
			best = name
		}
	}
	return best
}

// prune removes what a server never reads: a third of an unpacked MySQL is
// tools, Perl and manuals.
func prune(dir string) error {
	remove := []string{"etc", "usr/bin", "usr/games", "usr/include", "var"}
	for _, pattern := range []string{"usr/share/*", "usr/lib/*/perl*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if !serverShare.MatchString(filepath.Base(path)) {
				rel, err := filepath.Rel(dir, path)
				if err != nil {
					return err
				}
				remove = append(remove, rel)
			}
		}
	}
	for _, path := range remove {
		if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
			return err
		}
	}
	return nil
}

var serverShare = regexp.MustCompile(`^(mysql|mariadb)`)

// command runs a tool with plain English output, and puts the end of that
// output into the error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[len(args)-1], err, tail(stderr.String(), 15))
	}
	return stdout.String(), nil
}

// tail is the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
