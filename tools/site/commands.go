package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	server "github.com/kubernasium/kubernasium/server/command"
	trainer "github.com/kubernasium/kubernasium/trainer/command/all"
)

// commands writes a page for each command of trainer and server.
func commands(_ context.Context, out pages) error {
	index := &page{}
	index.printf("# Commands\n\nThe text of `--help` of each command.\n\n")
	var rows [][]string
	var names []string
	for _, root := range []*cobra.Command{trainer.New(), server.New("server")} {
		root.DisableAutoGenTag = true
		root.InitDefaultCompletionCmd()
		err := walk(root, func(c *cobra.Command) error {
			name := strings.ReplaceAll(c.CommandPath(), " ", "_")
			text, err := commandPage(c)
			if err != nil {
				return err
			}
			rows = append(rows, []string{fmt.Sprintf("[`%s`](%s.md)", c.CommandPath(), name), plain(c.Short)})
			names = append(names, c.CommandPath()+" <"+name+">")
			return out.write("commands/"+name+".md", text)
		})
		if err != nil {
			return err
		}
	}
	index.list([]string{"command", "purpose"}, rows, names)
	return out.write("commands/index.md", []byte(index.String()))
}

func walk(c *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "completion" {
			continue
		}
		if err := walk(sub, f); err != nil {
			return err
		}
	}
	return nil
}

var (
	deeper   = regexp.MustCompile(`(?m)^#(#+) `)
	shellTab = regexp.MustCompile(`(?m)^\* \[trainer completion\].*\n`)
)

// commandPage returns cobra's Markdown with headings from the first level on.
func commandPage(c *cobra.Command) ([]byte, error) {
	var text bytes.Buffer
	if err := doc.GenMarkdown(c, &text); err != nil {
		return nil, err
	}
	// Long texts of commands indent preformatted lines.
	page := deeper.ReplaceAll(text.Bytes(), []byte("$1 "))
	page = shellTab.ReplaceAll(page, nil)
	return bytes.Replace(page, []byte("## SEE ALSO"), []byte("## See also"), 1), nil
}
