// Package dbserver finds, installs and runs throwaway MySQL and MariaDB
// servers for tests and the demo.
//
// A server binary is looked for on the machine first, then in a cache folder.
// On Debian and Ubuntu it is otherwise downloaded with apt and unpacked into
// the cache: no root needed, nothing on the machine changed, signatures
// verified as for any other package. A server listens on 127.0.0.1 only,
// in a folder of its own, and dies with the process that started it.
package dbserver

import (
	"fmt"
	"strings"
)

// Flavor is a kind of server. Its text is also the name of a subtest.
type Flavor string

// The flavors that outboxgen supports.
const (
	MySQL   Flavor = "mysql"
	MariaDB Flavor = "mariadb"
)

// Flavors lists every flavor, in the order in which tests run.
func Flavors() []Flavor { return []Flavor{MySQL, MariaDB} }

// String is the product's own spelling.
func (f Flavor) String() string {
	switch f {
	case MySQL:
		return "MySQL"
	case MariaDB:
		return "MariaDB"
	}
	return string(f)
}

// EnvVar names the environment variable that holds the DSN (as
// go-sql-driver/mysql writes it) of a running server of this flavor.
func (f Flavor) EnvVar() string {
	return "OUTBOXGEN_" + strings.ToUpper(string(f)) + "_DSN"
}

// oldest is the first release with SELECT … FOR UPDATE SKIP LOCKED, which
// the relay needs: MySQL 8.0.1, MariaDB 10.6.
func (f Flavor) oldest() string {
	if f == MariaDB {
		return "10.6"
	}
	return "8.0.1"
}

// binaryNames are the names under which the flavor's server is installed.
// MariaDB also ships mysqld, as a link, so a name alone proves nothing.
func (f Flavor) binaryNames() []string {
	if f == MariaDB {
		return []string{"mariadbd", "mysqld"}
	}
	return []string{"mysqld"}
}

// UnavailableError says that no server of a flavor can be had here, and what
// the reader can do about it.
type UnavailableError struct {
	Flavor Flavor
	Reason string
}

func (e *UnavailableError) Error() string {
	pkg, port, image := "mysql-server", "3306", "-e MYSQL_ALLOW_EMPTY_PASSWORD=1 mysql:8.4"
	if e.Flavor == MariaDB {
		pkg, port, image = "mariadb-server", "3307", "-e MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1 mariadb:11.4"
	}
	server := strings.Join(e.Flavor.binaryNames(), " or ")
	return fmt.Sprintf(`no %[1]v server can be had on this machine: %[2]s
Do one of these:
  - install %[1]v %[3]s or newer (package %[4]s on most systems), so that %[5]s is in PATH or /usr/sbin
  - name a server of your own, with a user that may create and drop databases:
      export %[6]s='user:password@tcp(127.0.0.1:%[7]s)/'
  - start one in a container:
      docker run --rm -d -p 127.0.0.1:%[7]s:3306 %[8]s
      export %[6]s='root@tcp(127.0.0.1:%[7]s)/'`,
		e.Flavor, e.Reason, e.Flavor.oldest(), pkg, server, e.Flavor.EnvVar(), port, image)
}
