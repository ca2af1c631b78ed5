package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// against reads what --against names: a file, or the config as it was in git.
func against(ctx context.Context, config, name string) (*spec.Model, error) {
	info, err := os.Stat(name)
	if err == nil && info.Mode().IsRegular() {
		src, err := readConfig(name)
		if err != nil {
			return nil, err
		}
		return parseBase(name, src)
	}
	if extension := filepath.Ext(name); extension == ".yaml" || extension == ".yml" {
		return nil, hinted{fmt.Errorf("%s is not a file", name), "name a file, or a branch, tag or commit of git"}
	}
	src, err := atRef(ctx, config, name)
	if err != nil {
		return nil, err
	}
	return parseBase(name+":"+filepath.ToSlash(config), src)
}

// atRef reads a file as it was at a branch, tag or commit. It asks git's plumbing, whose
// answers don't depend on the user's settings.
func atRef(ctx context.Context, file, ref string) ([]byte, error) {
	if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, ":\n") {
		return nil, hinted{fmt.Errorf("%q is no branch, tag or commit", ref), "write --against main, for example"}
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, hinted{errors.New("git is not installed, or not in PATH"), "install it, or compare with a file or the lock"}
	}
	dir := filepath.Dir(file)
	if _, err := run(ctx, dir, git, "rev-parse", "--git-dir"); err != nil {
		return nil, hinted{fmt.Errorf("%s is in no git repository that can be read: %w", dir, err), "compare with a file or the lock"}
	}
	commit, err := run(ctx, dir, git, "rev-parse", "--verify", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return nil, hinted{fmt.Errorf("git knows no branch, tag or commit %q", ref), "fetch it first: a CI checkout may have one commit alone"}
	}
	object := strings.TrimSpace(string(commit)) + ":./" + filepath.Base(file)
	src, err := run(ctx, dir, git, "cat-file", "blob", object)
	if err != nil {
		return nil, hinted{fmt.Errorf("there is no %s at %s: %w", filepath.ToSlash(file), ref, err), "name a commit that has it, or the file by its old name with --against"}
	}
	return src, nil
}

// run runs a command and returns what it prints. The error is what it says itself.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		if first == "" {
			return nil, err
		}
		return nil, errors.New(first)
	}
	return out.Bytes(), nil
}
