package dbserver

import (
	"os"
	"os/exec"

	"github.com/outboxgen/outboxgen/internal/throwaway"
)

func startProcess(bin *Binary, args []string, work *workDir) (*throwaway.Process, error) {
	output, err := os.OpenFile(work.join("output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	argv := bin.argv(args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = work.path
	cmd.Env = append(bin.env(), "TMPDIR="+work.join("tmp"))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{work.lock}
	return throwaway.Start(cmd)
}
