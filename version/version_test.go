package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		{"of a commit", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "example.com/m", Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2030-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"},
		}}, "p version 1.2.3\nmodule: example.com/m (devel)\ncommit: abc of 2030-01-02T03:04:05Z\ngo: go1.30 " + platform + "\n"},
		{"with changes", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "T"}, {Key: "vcs.modified", Value: "true"},
		}}, "p version 1.2.3\nmodule: m (devel)\ncommit: abc of T, modified\ngo: go1.30 " + platform + "\n"},
		{"without version control", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "(devel)"}},
			"p version 1.2.3\nmodule: m (devel)\ncommit: unknown: built without version control\ngo: go1.30 " + platform + "\n"},
		{"of a tag", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "v2.3.4-rc.1"}},
			"p version 2.3.4-rc.1\nmodule: m v2.3.4-rc.1\ncommit: that of the tag v2.3.4-rc.1\ngo: go1.30 " + platform + "\n"},
		{"of a commit after a tag", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "v0.1.1-0.20300102030405-0123456789ab"}},
			"p version 1.2.3\nmodule: m v0.1.1-0.20300102030405-0123456789ab\ncommit: 0123456789ab of 2030-01-02T03:04:05Z\ngo: go1.30 " + platform + "\n"},
		{"of a changed tag", debug.BuildInfo{GoVersion: "go1.30", Main: debug.Module{Path: "m", Version: "v2.3.4+dirty"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "T"}, {Key: "vcs.modified", Value: "true"},
		}}, "p version 1.2.3\nmodule: m v2.3.4+dirty\ncommit: abc of T, modified\ngo: go1.30 " + platform + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := text("p", "1.2.3", &tc.info); got != tc.want {
				t.Errorf("text = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestLinkedCommit: what the linker has set comes before what Go has recorded, the release too.
func TestLinkedCommit(t *testing.T) {
	Commit, Date = "def", "2030-01-02T03:04:05Z"
	t.Cleanup(func() { Commit, Date = "", "" })
	info := debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "T"}}}
	if got := text("p", "1.2.3", &info); !strings.Contains(got, "p version 1.2.3\n") || !strings.Contains(got, "\ncommit: def of 2030-01-02T03:04:05Z\n") {
		t.Errorf("text = %q, want the linker's release and commit", got)
	}
}

// TestPrograms builds server and trainer and compares what they print with what git and Go say.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("links programs; run without -short")
	}
	if info, err := os.Stat("../.git"); err != nil || !info.IsDir() {
		t.Skip("Go records no commit outside a repository and in its linked worktrees; run in a clone")
	}
	log := exec.Command("git", "log", "-1", "--format=%H of %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
	log.Env = append(os.Environ(), "TZ=UTC")
	commit, err := log.Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=true", "-ldflags", "-X github.com/kubernasium/kubernasium/version.Number=7.8.9", "-o", folder, "../server", "../trainer")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"server", "trainer"} {
		out, err := exec.Command(filepath.Join(folder, program), "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"module: github.com/kubernasium/kubernasium ", "commit: " + strings.TrimSpace(string(commit)), "go: " + runtime.Version()} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s --version printed\n%s\nwithout %q", program, out, want)
			}
		}
	}
}

// TestNumbersAgree: the files that name the release name the same one; between releases, "-dev" may follow.
func TestNumbersAgree(t *testing.T) {
	want := strings.TrimSuffix(Number, "-dev")
	for file, pattern := range map[string]string{
		"clients/python/src/kubernasium/__init__.py":            `(?m)^__version__ = "(.+)"$`,
		"clients/python/pyproject.toml":                         `(?m)^kwok = \["kubernasium-kwok==([^;"]+)`,
		"clients/python/src/kubernasium/protocol/connection.py": `(?m)^CLIENT = "kubernasium-python/(.+)"$`,
		"deploy/helm/kubernasium/Chart.yaml":                    `(?m)^version: (.+)$(?:\n|.)*^appVersion: "(.+)"$`,
		"CITATION.cff":                                          `(?m)^version: (.+)$`,
	} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		if found == nil {
			t.Errorf("%s names no release", file)
			continue
		}
		for _, number := range found[1:] {
			if strings.TrimSuffix(number, "-dev") != want {
				t.Errorf("%s names release %s, version.Number %s", file, number, Number)
			}
		}
	}
}
