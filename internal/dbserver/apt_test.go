package dbserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The folders of testdata hold the configuration of machines that we met.
func TestPlanApt(t *testing.T) {
	for _, c := range []struct {
		machine string
		flavor  Flavor
		name    string // without the architecture
		want    string
	}{
		{"debian-deb822", MariaDB, "mariadb-debian-bookworm", `Types: deb
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
Targets: Packages
signed-by: /usr/share/keyrings/debian-archive-bookworm-stable.gpg
`},
		// Another suite, and so the keyring of all releases.
		{"debian-deb822", MySQL, "mysql-debian-unstable", `Types: deb
URIs: http://mirror.example/debian/
Suites: unstable
Components: main
Targets: Packages
signed-by: /usr/share/keyrings/debian-archive-keyring.gpg
`},
		{"debian-oneline", MariaDB, "mariadb-debian-trixie", `Types: deb
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Targets: Packages
`},
		{"debian-oneline", MySQL, "mysql-debian-unstable", `Types: deb
URIs: http://mirror.example/debian
Suites: unstable
Components: main
Targets: Packages
`},
		{"ubuntu-deb822", MySQL, "mysql-ubuntu-noble", `Types: deb
URIs: mirror+file:/etc/apt/apt-mirrors.txt
Suites: noble noble-updates noble-security
Components: main universe
Targets: Packages
signed-by: /usr/share/keyrings/ubuntu-archive-keyring.gpg
`},
		{"ubuntu-oneline", MariaDB, "mariadb-ubuntu-jammy", `Types: deb
URIs: http://mirror.example/ubuntu
Suites: jammy jammy-updates
Components: main universe
Targets: Packages
trusted: yes
`},
	} {
		plan, err := planApt(filepath.Join("testdata", c.machine), c.flavor)
		if err != nil {
			t.Errorf("%s, %v: %v", c.machine, c.flavor, err)
			continue
		}
		if got := plan.from.deb822(plan.suites, plan.components); got != c.want {
			t.Errorf("%s, %v: got\n%swant\n%s", c.machine, c.flavor, got, c.want)
		}
		if !strings.HasPrefix(plan.name(), c.name+"-") {
			t.Errorf("%s, %v: cached as %s, want %s-…", c.machine, c.flavor, plan.name(), c.name)
		}
	}
}

func TestPlanAptErrors(t *testing.T) {
	for machine, want := range map[string]string{
		"no-archive": "apt's sources name no archive for trixie",
		"fedora":     "only on Debian and Ubuntu can it be downloaded",
		"none":       "only on Debian and Ubuntu can it be downloaded",
	} {
		_, err := planApt(filepath.Join("testdata", machine), MySQL)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want … %s …", machine, err, want)
		}
	}
}

// An inline key must survive the way through our own sources file.
func TestInlineKey(t *testing.T) {
	text, err := os.ReadFile("testdata/ubuntu-deb822/etc/apt/sources.list.d/another.sources")
	if err != nil {
		t.Fatal(err)
	}
	first := parseDeb822(string(text))
	again := parseDeb822(first[0].deb822(first[0].suites, first[0].components))
	key := first[0].options["signed-by"]
	if !strings.Contains(key, "\n mQINBGA\n") || again[0].options["signed-by"] != key {
		t.Errorf("the key was read as %q, then as %q", key, again[0].options["signed-by"])
	}
}

// The real apt must take our configuration: it stays within its own folder
// and none of the machine's hooks is left.
func TestAptConfig(t *testing.T) {
	if _, err := exec.LookPath("apt-config"); err != nil {
		t.Skip("no apt on this machine")
	}
	plan, err := planApt("testdata/debian-deb822", MariaDB)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf, err := plan.writeConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	dump, err := command(t.Context(), "apt-config", "-c", conf, "dump")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`Dir::State::status "` + dir + `/status";`,
		`Dir::State::lists "` + dir + `/state/lists";`,
		`Dir::Cache::archives "` + dir + `/cache/archives";`,
		`Dir::Etc::sourcelist "` + dir + `/outboxgen.sources";`,
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("apt did not take %s", want)
		}
	}
	if strings.Contains(dump, "APT::Update::Post-Invoke:") {
		t.Error("the machine's update hooks would run")
	}
}

func TestNewestPackage(t *testing.T) {
	for search, want := range map[string]string{
		"": "",
		"mysql-server-core-8.0 - server binaries\nmysql-server-core-8.4 - server binaries\n": "mysql-server-core-8.4",
		"mysql-server-core-8.0 - x\nmysql-server-core - x\n":                                 "mysql-server-core",
	} {
		if got := newestPackage("mysql-server-core", search); got != want {
			t.Errorf("from %q: got %q, want %q", search, got, want)
		}
	}
}

// A mirror that does not answer is an error with apt's own words, not a
// warning and an empty folder.
func TestDownloadFails(t *testing.T) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no apt on this machine")
		}
	}
	plan, err := planApt("testdata/debian-oneline", MySQL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	plan.from.uris = []string{"file:" + filepath.Join(t.TempDir(), "nothing")}
	err = plan.download(t.Context(), filepath.Join(t.TempDir(), "root"), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "apt-get update: ") || !strings.Contains(err.Error(), "unstable") {
		t.Errorf("got %v, want apt's own message", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
