package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/compat"
	"github.com/outboxgen/outboxgen/internal/diag"
)

func acceptFlag(cmd *cobra.Command, accept *[]string) {
	cmd.Flags().StringArrayVar(accept, "accept", nil,
		"a `RULE` about operations whose change is prepared; repeatable: "+strings.Join(acceptable(), ", "))
}

func acceptable() []string { return names(compat.Acceptable()) }

func names(rules []compat.Rule) []string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = string(r)
	}
	return list
}

// checkAccepted refuses what nobody can take back once it is published.
func checkAccepted(accept []string) error {
	for _, rule := range accept {
		switch {
		case slices.Contains(acceptable(), rule):
		case slices.Contains(names(compat.Rules()), rule):
			return hinted{
				fmt.Errorf("%s can't be accepted: messages of the old form can't be taken back", rule),
				"only " + strings.Join(acceptable(), ", ") + " can",
			}
		default:
			near := diag.Nearest(rule, acceptable())
			if near != "" {
				near = fmt.Sprintf("did you mean %s?", near)
			}
			return hinted{fmt.Errorf("unknown rule %q", rule), cmp.Or(near, "use one of "+strings.Join(acceptable(), ", "))}
		}
	}
	return nil
}

// without leaves out the findings of accepted rules.
func without(list diag.List, accept []string) diag.List {
	return slices.DeleteFunc(list, func(d diag.Diagnostic) bool { return slices.Contains(accept, d.Rule) })
}
