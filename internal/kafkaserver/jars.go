package kafkaserver

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/outboxgen/outboxgen/internal/dbserver"
)

// version is the one in pom.xml. It runs on Java 17 and later.
const version = "4.1.1"

//go:embed pom.xml
var pom []byte

// LibsVar names the environment variable with a folder of Kafka's jars, such as
// libs of its release, to be used instead of a download.
const LibsVar = "OUTBOXGEN_KAFKA_LIBS"

var errTools = errors.New("a private Kafka needs java, 17 or later, and mvn, which fetches its jars: " +
	"on Debian and Ubuntu, apt-get install default-jre-headless maven; " +
	"or set " + LibsVar + " to the libs folder of a Kafka release, or OUTBOXGEN_KAFKA_BROKERS to brokers of yours")

// jars returns the folder with Kafka's jars. At the first time Maven fetches
// them, 43 MB, into the cache folder.
func jars(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", errTools
	}
	if dir := os.Getenv(LibsVar); dir != "" {
		return dir, nil
	}
	cache, err := dbserver.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kafka-"+version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errTools
	}
	tmp, err := os.MkdirTemp(cache, "kafka-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o600); err != nil {
		return "", err
	}
	libs := filepath.Join(tmp, "libs")
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+libs)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Kafka %s: %w\n%s", version, err, out)
	}
	// Another process may have been faster.
	if err := os.Rename(libs, dir); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}
