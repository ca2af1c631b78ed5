package doctor

import (
	"strings"
	"testing"
)

func TestServiceDSN(t *testing.T) {
	const secret = "hunter2secret"
	const sound = "orders:" + secret + "@tcp(127.0.0.1:3306)/orders?readTimeout=10s&writeTimeout=10s&interpolateParams=true"
	for dsn, want := range map[string]string{
		sound: "",
		sound + "&clientFoundRows=true&parseTime=true&loc=Local&charset=utf8mb4":                 "",
		sound + "&innodb_lock_wait_timeout=3&wait_timeout=90&sql_mode=%27STRICT_TRANS_TABLES%27": "",
		strings.Replace(sound, "127.0.0.1", "db.internal", 1) + "&tls=true":                      "",
		strings.Replace(sound, "tcp(127.0.0.1:3306)", "unix(/run/mysqld.sock)", 1):               "",
		"orders:" + secret + "@tcp(127.0.0.1:3306)/orders?interpolateParams=true":                "error dsn-refused, error dsn-refused",
		sound + "&multiStatements=true":                                                          "error dsn-refused",
		sound + "&charset=latin1":                                                                "error dsn-refused",
		sound + "&collation=utf8mb3_general_ci":                                                  "error dsn-refused",
		"mysql://orders:" + secret + "@127.0.0.1/orders":                                         "error dsn-refused",
		sound + "&tls=" + secret:                                                                 "error dsn-refused",
		sound + "&innodb_lock_wait_timeout=10":                                                   "warning dsn-lock-wait",
		sound + "&wait_timeout=30":                                                               "warning dsn-idle",
		sound + "&wait_timeout=28800":                                                            "warning dsn-idle",
		sound + "&autocommit=0":                                                                  "error autocommit-off",
		sound + "&autocommit=false":                                                              "error autocommit-off",
		sound + "&sql_mode=%27%27":                                                               "warning sql-mode-lax",
		sound + "&binlog_format=%27STATEMENT%27":                                                 "error binlog-statement",
		sound + "&maxAllowedPacket=1048576":                                                      "warning packet-too-small",
		strings.Replace(sound, "&interpolateParams=true", "", 1):                                 "note dsn-round-trips",
		strings.Replace(sound, "127.0.0.1", "db.internal", 1):                                    "note dsn-not-encrypted",
		strings.Replace(sound, "127.0.0.1", "10.0.0.7", 1) + "&tls=false":                        "note dsn-not-encrypted",
	} {
		var r Report
		(&look{cfg: Config{ServiceDSNs: []string{dsn}}, report: &r}).serviceDSNs()
		if got := strings.Join(rulesOf(r), ", "); got != want {
			t.Errorf("%s: %s, want %s", dsn, got, want)
		}
		if text := described(r); strings.Contains(text, secret) {
			t.Errorf("%s: shows the password: %s", dsn, text)
		}
		for _, d := range r.Findings {
			if d.Hint == "" {
				t.Errorf("%s: %s doesn't say what to do", dsn, d.Rule)
			}
		}
	}
}
