package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

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

// Print writes the command's result: v as JSON with --json, or else the output of text, which need not check its writes.
func Print(cmd *cobra.Command, v any, text func(io.Writer) error) error {
	if WantJSON(cmd) {
		return PrintJSON(cmd, v)
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	return cmp.Or(text(w), w.Flush())
}

// Printf is Print with a format instead of text.
func Printf(cmd *cobra.Command, v any, format string, args ...any) error {
	return Print(cmd, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}
