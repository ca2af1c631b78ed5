package mysqldb_test

import (
	"errors"
	"strings"
	"testing"

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
