package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAudit: tools/audit.sh, with programs in place of go and govulncheck, fails for each reason and for no other.
// govulncheck ends with 3 if it finds a vulnerability, by its documentation.
func TestAudit(t *testing.T) {
	for _, tc := range []struct {
		name, licences, vulnerabilities string
		status                          int
		want                            string
	}{
		{"nothing found", "echo m v1", "exit 0", 0, "vulnerabilities of kwok/scheduler: none that its programs call"},
		{"a licence", `case "$*" in *kwok/scheduler*) exit 1;; esac`, "exit 0", 1, "audit failed: licences of kwok/scheduler\n"},
		{"a vulnerability", "echo m v1", `case "$*" in *kwok/scheduler*) exit 3;; esac`, 1, "audit failed: vulnerabilities of kwok/scheduler\n"},
		{"no database", "echo m v1", "exit 1", 1, "audit failed: vulnerabilities: unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folderWith(t, map[string]string{"go": "#!/bin/sh\n" + tc.licences + "\n", "govulncheck": "#!/bin/sh\n" + tc.vulnerabilities + "\n"})
			for _, name := range []string{"go", "govulncheck"} {
				if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("../audit.sh")
			cmd.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), "GOVULNCHECK="+filepath.Join(dir, "govulncheck"), "VULNDB=")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != tc.status || !strings.Contains(string(out), tc.want) {
				t.Errorf("audit.sh: %v, want status %d and %q; it printed\n%s", err, tc.status, tc.want, out)
			}
		})
	}
}

// TestDependabot: .github/dependabot.yml names each folder with a go.mod, or with Python's pinned requirements.
func TestDependabot(t *testing.T) {
	data, err := os.ReadFile("../../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var conf struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	if err := yaml.Unmarshal(data, &conf); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, u := range conf.Updates {
		got[u.Ecosystem] = append(got[u.Ecosystem], u.Directories...)
	}
	for ecosystem, patterns := range map[string][]string{"gomod": {"go.mod", "**/go.mod"}, "pip": {"**/requirements*.txt", "tools/requirements.txt"}} {
		cmd := exec.Command("git", append([]string{"-C", "../..", "ls-files", "--"}, patterns...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for name := range strings.FieldsSeq(string(out)) {
			if folder := filepath.ToSlash(filepath.Join("/", filepath.Dir(name))); !slices.Contains(want, folder) {
				want = append(want, folder)
			}
		}
		slices.Sort(want)
		slices.Sort(got[ecosystem])
		if !slices.Equal(got[ecosystem], want) || len(want) < 5 {
			t.Errorf("dependabot.yml has folders %q for %s, want %q", got[ecosystem], ecosystem, want)
		}
	}
}
