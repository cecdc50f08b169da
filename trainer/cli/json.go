package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// WantJSON reports whether --json was given.
func WantJSON(cmd *cobra.Command) bool {
	v, err := cmd.Flags().GetBool("json")
	return err == nil && v
}

// PrintJSON writes v as the command's JSON document.
func PrintJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
