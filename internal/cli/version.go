package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// generatedAPI is the version of the interface between generated code and
// runtime/outbox, which generated code refers to.
const generatedAPI = "v1"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of outboxgen and of the code it generates",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "outboxgen %s, generated API %s\n", moduleVersion(), generatedAPI)
			return err
		},
	}
}

// moduleVersion is what the go command recorded: a release, or (devel).
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
