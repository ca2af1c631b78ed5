package mysqldb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

func TestSettings(t *testing.T) {
	const base = "u:secret@tcp(127.0.0.1:1)/db?readTimeout=10s&writeTimeout=10s"
	good := []string{
		base, base + "&charset=utf8mb4", base + "&collation=utf8mb4_bin", base + "&charset=UTF8MB4&parseTime=true&loc=Local",
		base + "&interpolateParams=true&clientFoundRows=true", base + "&innodb_lock_wait_timeout=3",
		"u:a/b?c@tcp(127.0.0.1:1)/db?readTimeout=10s&writeTimeout=10s",
	}
	bad := map[string]string{
		"u:secret@tcp(127.0.0.1:1)/db":                                            "readTimeout",
		"u:secret@tcp(127.0.0.1:1)/db?readTimeout=10s":                            "writeTimeout",
		"u:secret@tcp(127.0.0.1:1)/db?writeTimeout=10s":                           "readTimeout",
		base + "&multiStatements=true":                                            "multiStatements",
		base + "&charset=utf8":                                                    "charset",
		base + "&charset=latin1":                                                  "charset",
		base + "&charset=utf8mb4,utf8":                                            "charset",
		base + "&collation=latin1_swedish_ci":                                     "collation",
		"u:a/b?charset=x@tcp(h:1)/db?charset=utf8&readTimeout=1s&writeTimeout=1s": "charset",
	}
	for _, dsn := range good {
		db, err := mysqldb.Open(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		_ = db.Close()
	}
	for dsn, word := range bad {
		_, err := mysqldb.Open(dsn)
		if !errors.Is(err, mysqldb.ErrSettings) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want %s refused", dsn, err, word)
		}
	}
	if _, err := mysqldb.Open("u:secret@nonsense"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v: want an error without the password", err)
	}
}

// All that is wrong is told at once, in the order in which Open refuses it.
func TestObjections(t *testing.T) {
	cfg, err := mysql.ParseDSN("u:secret@tcp(h:1)/db?multiStatements=true&charset=latin1,utf8")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, objection := range mysqldb.Objections(cfg) {
		word, _, _ := strings.Cut(objection, " is")
		words = append(words, word)
	}
	if got := strings.Join(words, ", "); got != "readTimeout, writeTimeout, multiStatements, the charset" {
		t.Error(got)
	}
	cfg, _ = mysql.ParseDSN("u:secret@tcp(h:1)/db?readTimeout=1s&writeTimeout=1s")
	if got := mysqldb.Objections(cfg); len(got) > 0 {
		t.Error(got)
	}
}
