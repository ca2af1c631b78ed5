package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/schemadiff"
)

// impostors speak the protocol and are neither MySQL nor MariaDB, or are something between us and
// them, as far as they say so.
var impostors = []struct{ sign, name, why string }{
	{"tidb", "TiDB", "it knows no SKIP LOCKED; the relay of `ordering: none` refuses it when it tries"},
	{"vitess", "Vitess", "error texts and transactions over shards are its own"},
	{"planetscale", "PlanetScale", "it is Vitess: error texts and transactions over shards are its own"},
	{"dolt", "Dolt", "it parses SKIP LOCKED and ignores it"},
	{"oceanbase", "OceanBase", "its locks are its own"},
	{"singlestore", "SingleStore", "its transactions and constraints are its own"},
	{"memsql", "SingleStore", "its transactions and constraints are its own"},
	{"aurora", "Amazon Aurora", "a failover makes its connections read-only for a while; add rejectReadOnly=true to the DSN"},
	{"proxysql", "ProxySQL", "it may send reads elsewhere and share connections: route all of the service to the primary"},
	{"maxscale", "MaxScale", "it may send reads elsewhere: route all of the service to the primary"},
	{"percona", "Percona Server", "it is MySQL with additions"},
	{"-google", "Cloud SQL", "it is MySQL with settings of its own"},
	{"azure", "Azure Database", "it is MySQL with settings of its own"},
}

// name is what the server is.
func (l *look) name() string {
	kind := "MySQL"
	if l.server.MariaDB {
		kind = "MariaDB"
	}
	return kind + " " + l.vars["version"]
}

func (l *look) version(context.Context) error {
	version, comment := l.vars["version"], l.vars["version_comment"]
	says := strings.ToLower(version + " " + comment)
	if l.vars["aurora_version"] != "" {
		says += " aurora"
	}
	var err error
	l.server, err = schemadiff.ServerOf(version, l.vars["sql_mode"])
	for _, i := range impostors {
		if !strings.Contains(says, i.sign) {
			continue
		}
		l.note("server-untested", fmt.Sprintf("the server is %s (%s), which outboxgen isn't tested with: %s", i.name, version, i.why),
			"run make test of outboxgen against it, or try it under load before you rely on it")
		if i.name == "TiDB" {
			return nil // its version is one that it pretends to be
		}
	}
	if strings.EqualFold(l.vars["wsrep_on"], "on") {
		l.note("galera", "the server is a node of a Galera cluster: locks are of one node only, and a transaction that loses against one of another node fails at its COMMIT",
			"send writers, relays and consumers of a service to one and the same node")
	}
	var refused *schemadiff.RefusedError
	switch {
	case errors.As(err, &refused):
		l.fail("server-unsupported", refused.Error(), refused.Hint)
	case err != nil:
		return err
	case !l.server.MariaDB && (l.server.AtLeast(8, 1, 0) && !l.server.AtLeast(8, 4, 0) || l.server.AtLeast(10, 0, 0)):
		l.note("server-untested", fmt.Sprintf("MySQL %s is none of the versions that outboxgen is tested with", version), "use 8.0, 8.4 or 9.x")
	}
	return nil
}
