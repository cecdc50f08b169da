package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

var updateCommands = flag.Bool("update-commands", false, "add commands that the texts have and testdata/commands.txt lacks, and remove those that are gone")

// commandsFile lists every command of the texts with the way in which the tests below run it.
const commandsFile = "testdata/commands.txt"

const commandsHeader = `# Every trainer command of the documents and of --help's examples, and how TestDocumentedCommands (in make
# test-full) and TestKwokDocumentedCommands (in make test-kwok) run it: HOW | COMMAND.
#
#   run [WORDS]    runs it in its short form. Each of WORDS is OLD=>NEW, which replaces words or parts of
#                  them, or an argument that is added at the end, where it overrides the same flag.
#                  shortForms in commands_test.go adds what makes trainings and the like small.
#   kwok [WORDS]   the same with a control plane.
#   parse TEST     TEST covers what it does; its flags are parsed, and files of the repository that it
#                  names must exist. OLD=>NEW as above.
#
# After a change of a text: go test ./trainer -run TestCommandsAreListed -args -update-commands, then
# read the lines that it has added.
`

// documented is a command of a text.
type documented struct {
	where string // file and line, or the command whose example it is
	args  []string
}

func (d documented) key() string {
	words := []string{"trainer"}
	for _, a := range d.args {
		words = append(words, cli.Quote(a))
	}
	return strings.Join(words, " ")
}

// documents are those whose commands are tested, from the repository's root.
func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "kwok/README.md", "kwok/controlplane/README.md", "clients/python/README.md"}
	for _, pattern := range []string{"agents/*/README.md", "docs/*.md", "docs/results/*.md", "envs/*/README.md", "envs/*/*/README.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, f := range found {
			all = append(all, filepath.ToSlash(strings.TrimPrefix(f, "../")))
		}
	}
	return all
}

// mention finds what may be a trainer command.
var mention = regexp.MustCompile(`(?m)(^|[;&|(]|\bdo)[ \t]*(go run \./trainer|bin/trainer|trainer)[ \t]+[a-z-]`)

// script is a piece of shell of a text.
type script struct {
	where string
	line  int // of its first line
	text  string
	span  bool // within a sentence
}

// codeSpan is a command within a sentence; a line's end in it is a blank.
var codeSpan = regexp.MustCompile("`((?:go run \\./trainer|bin/trainer|trainer) [^`]+)`")

// scripts returns the pieces of a document: blocks that are indented by four or fenced as a shell's or as
// nothing, and code spans.
func scripts(name, text string) []script {
	var all []script
	var block []string
	first, fence, skip := 0, false, false
	end := func() {
		all = append(all, script{name, first, strings.Join(block, "\n"), false})
		block = nil
	}
	lines := strings.Split(text, "\n")
	var prose []string
	for i, line := range lines {
		mark := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(mark, "```"); ok {
			fence = !fence
			skip = fence && rest != "" && !slices.Contains([]string{"sh", "bash", "shell", "console"}, rest)
			end()
			first = i + 2
			continue
		}
		indented, ok := strings.CutPrefix(line, "    ")
		switch {
		case skip:
		case fence:
			block = append(block, line)
		case ok:
			if block == nil {
				first = i + 1
			}
			block = append(block, indented)
		case mark == "" && block != nil:
			block = append(block, "")
		default:
			if block != nil {
				end()
			}
			prose = append(prose, line)
			continue
		}
		prose = append(prose, "")
	}
	end()
	joined := strings.Join(prose, "\n")
	for _, at := range codeSpan.FindAllStringSubmatchIndex(joined, -1) {
		all = append(all, script{name, 1 + strings.Count(joined[:at[2]], "\n"), strings.ReplaceAll(joined[at[2]:at[3]], "\n", " "), true})
	}
	return slices.DeleteFunc(all, func(s script) bool { return !mention.MatchString(s.text) })
}

// shell runs a script without any program: every command that it would start is written to standard
// output, with its line, as fields that end with NUL.
const shell = `PATH=/nowhere
command_not_found_handle() { builtin printf '%s\0' "$BASH_LINENO" "$@" END >&3; }
kubectl() { :; }
`

var programs = strings.NewReplacer("go run ./trainer", "trainer", "bin/trainer", "trainer")

// commandsOf lets bash read a script, with its variables, loops and quotes, and returns the trainer's
// commands. Of a loop it returns the first round.
func commandsOf(t *testing.T, s script) []documented {
	t.Helper()
	text := programs.Replace(s.text)
	text = regexp.MustCompile(`(^|\s)\[--[^\]]*\]`).ReplaceAllString(text, "$1") // usage: [--flag VALUE]
	// Separate lines run one by one as far as they can, so that printed results between them are no matter.
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-c", shell+text)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{write}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	runErr := cmd.Start()
	write.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(read); err != nil {
		t.Fatal(err)
	}
	read.Close()
	if runErr == nil {
		_ = cmd.Wait() // its status is the last command's, which did not run
	}
	if strings.Contains(stderr.String(), "syntax error") {
		t.Fatalf("%s:%d: bash does not understand\n%s\n%s", s.where, s.line, text, stderr.String())
	}
	var all []documented
	seen := map[string]bool{}
	fields := strings.Split(out.String(), "\x00")
	for len(fields) > 1 {
		n := slices.Index(fields, "END")
		line, args := fields[0], fields[1:n]
		fields = fields[n+1:]
		if args[0] != "trainer" {
			continue
		}
		args = withoutEllipses(args[1:])
		path, _, err := root().Find(args)
		if err == nil && s.span && len(args) < len(strings.Fields(path.CommandPath())) {
			return nil // the command's name in a sentence
		}
		if err != nil || len(args) == 0 {
			t.Errorf("%s:%d: trainer %s: %v", s.where, s.line, strings.Join(args, " "), err)
			continue
		}
		if once := line + path.CommandPath(); !seen[once] {
			seen[once] = true
			all = append(all, documented{fmt.Sprintf("%s:%d", s.where, s.line), args})
		}
	}
	if len(all) == 0 {
		t.Errorf("%s:%d: found no command in\n%s\n%s", s.where, s.line, text, stderr.String())
	}
	return all
}

// withoutEllipses drops what a text leaves out, with the flag before it.
func withoutEllipses(args []string) (kept []string) {
	for _, a := range args {
		if a != "..." && a != "…" {
			kept = append(kept, a)
		} else if n := len(kept); n > 0 && strings.HasPrefix(kept[n-1], "--") {
			kept = kept[:n-1]
		}
	}
	return kept
}

// allDocumented returns the commands of all texts by their key.
func allDocumented(t *testing.T) map[string]documented {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash, by which it reads the documents' commands: install it")
	}
	var pieces []script
	for _, name := range documents(t) {
		pieces = append(pieces, scripts(name, envstest.Read(t, filepath.Join("..", name)))...)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if mention.MatchString(c.Example) {
			pieces = append(pieces, script{c.CommandPath() + " --help", 1, c.Example, false})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
	all := map[string]documented{}
	for _, s := range pieces {
		for _, d := range commandsOf(t, s) {
			if _, ok := all[d.key()]; !ok {
				all[d.key()] = d
			}
		}
	}
	return all
}

// readCommands returns how each command of commandsFile is run.
func readCommands(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(commandsFile)
	if err != nil && !*updateCommands {
		t.Fatal(err)
	}
	how := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		a, b, ok := strings.Cut(line, " | ")
		if !ok {
			t.Fatalf("%s: line %q, want HOW | COMMAND", commandsFile, line)
		}
		how[b] = strings.TrimSpace(a)
	}
	return how
}

// TestCommandsAreListed: the texts and commandsFile have the same commands.
func TestCommandsAreListed(t *testing.T) {
	all, how := allDocumented(t), readCommands(t)
	if *updateCommands {
		var lines []string
		for key, d := range all {
			if how[key] == "" {
				how[key] = firstGuess(d.args)
			}
			lines = append(lines, fmt.Sprintf("%s | %s", how[key], key))
		}
		slices.SortFunc(lines, func(a, b string) int {
			_, x, _ := strings.Cut(a, " | ")
			_, y, _ := strings.Cut(b, " | ")
			return strings.Compare(x, y)
		})
		envstest.Write(t, commandsFile, commandsHeader+"\n"+strings.Join(lines, "\n")+"\n")
		return
	}
	const what = "run `go test ./trainer -run TestCommandsAreListed -args -update-commands`, and read what it changes in trainer/" + commandsFile
	for key, d := range all {
		if how[key] == "" {
			t.Errorf("%s: no test runs\n\t%s\nAdd the line `run | %s`, or %s", d.where, key, key, what)
		}
	}
	for key := range how {
		if _, ok := all[key]; !ok {
			t.Errorf("no text has\n\t%s\nany more: %s", key, what)
		}
	}
	for key, h := range how {
		if words := strings.Fields(h); words[0] == "parse" {
			checkCovered(t, key, words[1:])
		} else if words[0] != "run" && words[0] != "kwok" {
			t.Errorf("%s: %q, want run, kwok or parse", key, h)
		}
	}
	if len(all) < 100 {
		t.Errorf("%d commands in all texts: the test does not find them", len(all))
	}
}

// checkCovered looks for the test that a command is left to.
func checkCovered(t *testing.T, key string, words []string) {
	t.Helper()
	if len(words) == 0 {
		t.Errorf("%s: parse names no test that covers it", key)
		return
	}
	cmd := exec.CommandContext(t.Context(), "grep", "-rqE", "--include=*_test.go", "^func "+regexp.QuoteMeta(words[0])+`\(`, "..")
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: parse names %s, which no test is called", key, words[0])
	}
}

// firstGuess returns how a new command is run; its author reviews the guess.
func firstGuess(args []string) string {
	if args[0] == "kwok" || strings.Contains(strings.Join(args, " "), "Kwok-v") {
		return "kwok"
	}
	return "run"
}

// TestDocumentedFlags: the flags of every command of the texts are those of the command, and the
// files of the repository that it names are there.
func TestDocumentedFlags(t *testing.T) {
	how := readCommands(t)
	for key, d := range allDocumented(t) {
		words := strings.Fields(how[key])
		if len(words) == 0 {
			continue // TestCommandsAreListed says so
		}
		args, _ := substituted(d.args, words[1:])
		cmd, rest, err := root().Find(args)
		if err != nil {
			t.Errorf("%s: %s: %v", d.where, key, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %s: %v", d.where, key, err)
			continue
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil && cmd.Runnable() && cmd.Name() != "up" {
			t.Errorf("%s: %s: %v", d.where, key, err)
		}
		for _, a := range d.args {
			_, value, ok := strings.Cut(a, ":")
			if !ok {
				value = a
			}
			if top, _, _ := strings.Cut(value, "/"); slices.Contains([]string{"models", "kwok", "envs", "clients", "tools", "docs"}, top) && strings.Contains(value, ".") {
				if _, err := os.Stat(filepath.Join("..", value)); err != nil && !strings.HasPrefix(value, "docs/img/") {
					t.Errorf("%s: %s: %v", d.where, key, err)
				}
			}
		}
	}
}
