package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CommandLine returns the command and its parents, with the given flags that change its result.
func CommandLine(cmd *cobra.Command) string {
	words := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !f.Changed { // the flag names a file whose settings appear here instead
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
			if f.NoOptDefVal != "" { // a value in a word of its own would be an argument of the command
				words = append(words, "--"+f.Name+"="+Quote(v))
				continue
			}
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

// CommandKey is the key in a checkpoint's metadata for the command that trained it.
const CommandKey = "command"
