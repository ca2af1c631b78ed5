package record

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Versions are those of everything that took part.
type Versions struct {
	Application string   `yaml:"application"` // module and version, or its commit
	Outboxgen   string   `yaml:"outboxgen"`
	Go          string   `yaml:"go"`
	Servers     []string `yaml:"servers"` // databases, by their own word
	Driver      string   `yaml:"driver"`
	Brokers     []string `yaml:"brokers"`
	Clients     []string `yaml:"clients"` // the brokers'
}

const (
	runtimeModule = "github.com/outboxgen/outboxgen"
	driverModule  = "github.com/go-sql-driver/mysql"
)

// BuildVersions are those that the running binary, or else the folder it runs in, tells.
func BuildVersions() Versions {
	v := Versions{Go: runtime.Version(), Outboxgen: ModuleVersion(runtimeModule), Driver: ModuleVersion(driverModule)}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Application = ModuleVersion(info.Main.Path)
	}
	return v
}

// ModuleVersion is a module's path with its version. A test binary doesn't know what is
// linked into it, so that it asks the go command for modules, and git for the commit of
// the one under test; where neither answers the version is "unknown".
func ModuleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return path + " unknown"
	}
	if info.Main.Path == path {
		return path + " " + mainVersion(info)
	}
	for _, m := range info.Deps {
		if m.Path == path {
			if m.Replace != nil {
				m = m.Replace
			}
			return m.Path + " " + m.Version
		}
	}
	if version := ask("go", "list", "-m", "-f", "{{.Version}}", path); version != "" {
		return path + " " + version
	}
	return path + " unknown"
}

// mainVersion is the commit: as the build noted it, else as the working copy has it.
func mainVersion(info *debug.BuildInfo) string {
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-dirty"
			}
		}
	}
	if revision == "" {
		revision, modified = ask("git", "describe", "--always", "--dirty"), ""
	}
	switch {
	case revision != "":
		return revision + modified
	case info.Main.Version != "":
		return info.Main.Version
	default:
		return "unknown"
	}
}

// ask returns what a command prints, or nothing when it fails.
func ask(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
