package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for _, tc := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"of a commit", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "example.com/m", Version: "v1.2.3"}, Settings: []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2030-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"},
		}}, "p version 1.2.3\nmodule: example.com/m v1.2.3\ncommit: abc of 2030-01-02T03:04:05Z\ngo: go1.30 " + platform + "\n"},
		{"with changes", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "T"}, {Key: "vcs.modified", Value: "true"},
		}}, "p version 1.2.3\nmodule: m (devel)\ncommit: abc of T, modified\ngo: go1.30 " + platform + "\n"},
		{"without version control", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "(devel)"}},
			"p version 1.2.3\nmodule: m (devel)\ncommit: unknown: built without version control\ngo: go1.30 " + platform + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := text("p", "1.2.3", &tc.info); got != tc.want {
				t.Errorf("text = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestLinkedCommit: what the linker has set comes before what Go has recorded.
func TestLinkedCommit(t *testing.T) {
	Commit, Date = "def", "2030-01-02T03:04:05Z"
	t.Cleanup(func() { Commit, Date = "", "" })
	info := debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "T"}}}
	if got := text("p", "1.2.3", &info); !strings.Contains(got, "\ncommit: def of 2030-01-02T03:04:05Z\n") {
		t.Errorf("text = %q, want the linker's commit", got)
	}
}

// TestProgram builds the server and compares what it prints with what git and Go say.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program; run without -short")
	}
	if info, err := os.Stat("../.git"); err != nil || !info.IsDir() {
		t.Skip("Go records no commit outside a repository and in its linked worktrees; run in a clone")
	}
	commit, err := exec.Command("git", "log", "-1", "--format=%H").Output()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "server")
	build := exec.Command("go", "build", "-buildvcs=true", "-ldflags", "-X github.com/kubernasium/kubernasium/version.Number=7.8.9", "-o", binary, "../server")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server version 7.8.9\n", "module: github.com/kubernasium/kubernasium ", "commit: " + strings.TrimSpace(string(commit)) + " of 2", "go: " + runtime.Version()} {
		if !strings.Contains(string(out), want) {
			t.Errorf("server --version printed\n%s\nwithout %q", out, want)
		}
	}
}
