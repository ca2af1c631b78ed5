package dbserver

import "testing"

func TestParseVersion(t *testing.T) {
	for _, c := range []struct {
		line    string
		flavor  Flavor
		version string
	}{
		{"/usr/sbin/mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64 ((Ubuntu))", MySQL, "8.0.36-0ubuntu0.22.04.1"},
		{"/x/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n", MySQL, "9.7.4-2"},
		{"/usr/local/mysql/bin/mysqld  Ver 8.4.3 for macos14 on arm64 (MySQL Community Server - GPL)", MySQL, "8.4.3"},
		{"/usr/sbin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)", MySQL, "8.0.36-28"},
		// The name says mysqld, the program is MariaDB.
		{"mysqld  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", MariaDB, "10.11.18-MariaDB-0+deb12u1"},
		{"mariadbd from 11.8.3-MariaDB, for Linux on x86_64", MariaDB, "11.8.3-MariaDB"},
	} {
		flavor, version, err := parseVersion(c.line)
		if err != nil || flavor != c.flavor || version != c.version {
			t.Errorf("%q: got %v %q, %v; want %v %q", c.line, flavor, version, err, c.flavor, c.version)
		}
	}
	if _, _, err := parseVersion("mysqld: unknown option '--version'"); err == nil {
		t.Error("a line without a version gives no error")
	}
}

func TestVersionLess(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"8.0.1-dmr", "8.0.1", false},
		{"5.7.44", "8.0.1", true},
		{"8.0.36-0ubuntu1", "8.0.1", false},
		{"10.11.18-MariaDB", "10.6", false},
		{"10.5.29-MariaDB", "10.6", true},
		{"8.0", "8.0.1", true},
	} {
		if got := versionLess(c.a, c.b); got != c.want {
			t.Errorf("versionLess(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
