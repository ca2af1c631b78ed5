package dbserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server ends with a parent that was killed, and the folder that nobody
// could remove goes when the next server starts.
func TestDiesWithParent(t *testing.T) {
	if parent := os.Getenv("DBSERVER_TEST_PARENT"); parent != "" {
		beParent(parent)
	}
	onEach(t, func(t *testing.T, bin *Binary) {
		folder := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
		cmd.Env = append(os.Environ(), "DBSERVER_TEST_PARENT="+string(bin.Flavor), "DBSERVER_TEST_FOLDER="+folder)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Wait() }()
		defer func() { _ = cmd.Process.Kill() }()
		var pid int
		line, err := bufio.NewReader(out).ReadString('\n')
		if _, scanErr := fmt.Sscanf(line, "server %d", &pid); scanErr != nil {
			t.Fatalf("the parent said %q, %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(15 * time.Second); alive(pid); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the server, process %d, outlived its parent", pid)
			}
		}

		left, err := filepath.Glob(filepath.Join(folder, "*", "lock"))
		if err != nil || len(left) != 1 {
			t.Fatalf("left behind: %v, %v; want one folder", left, err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(left[0], old, old); err != nil {
			t.Fatal(err)
		}
		work, err := newWorkDir(folder, bin.Flavor)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = work.remove() }()
		// The threads of a dead process close its files one after another, so
		// the lock may be held a little longer than the process is there.
		for deadline := time.Now().Add(15 * time.Second); isDir(filepath.Dir(left[0])); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is still there", filepath.Dir(left[0]))
			}
			sweep(folder, "outboxgen-")
		}
		// One that is held, however old, stays.
		if err := os.Chtimes(work.join("lock"), old, old); err != nil {
			t.Fatal(err)
		}
		sweep(folder, "outboxgen-")
		if _, err := os.Stat(work.path); err != nil {
			t.Errorf("the folder of a live server was removed: %v", err)
		}
	})
}

// beParent starts a server, tells its process ID, and waits to be killed.
func beParent(flavor string) {
	s, err := Start(context.Background(), Flavor(flavor), Options{TempDir: os.Getenv("DBSERVER_TEST_FOLDER")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("server %d\n", s.PID())
	time.Sleep(time.Minute)
	_ = s.Stop()
	os.Exit(1)
}

// alive is false for a zombie, too: an orphan is reaped by whoever adopts it.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
