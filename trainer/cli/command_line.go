package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CommandLine returns the command, after its parents, with the flags that were given and that
// change its result.
func CommandLine(cmd *cobra.Command) string {
	words := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !f.Changed { // a file whose settings stand here in its place
			return
		}
		switch f.Name {
		case "log-folder", "json", "n-jobs", "n-threads":
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+f.Name, Quote(v))
		}
	})
	return strings.Join(words, " ")
}

// Quote quotes a word for a shell.
func Quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`*?[]{}()<>|&;!#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// CommandKey is the key in a checkpoint's metadata of the command that trained it.
const CommandKey = "command"
