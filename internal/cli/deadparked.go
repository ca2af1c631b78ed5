package cli

import "github.com/spf13/cobra"

// deadCommand is about events that no relay tries any more.
func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look at events that could not be published, redrive them, give them up",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.deadListCommand(), a.deadShowCommand(), a.deadRedriveCommand(), a.deadDiscardCommand())
	return cmd
}

// parkedCommand is about events that a consumer gave up on.
func (a *app) parkedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Look at events that a consumer gave up on, redrive them, give them up",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.parkedListCommand(), a.parkedShowCommand(), a.parkedRedriveCommand(), a.parkedDiscardCommand())
	return cmd
}
