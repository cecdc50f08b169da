package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// isc is the whole licence: licensecheck knows none by its beginning.
const isc = `Permission to use, copy, modify, and/or distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES
WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF
OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		envstest.Write(t, filepath.Join(dir, name), content)
	}
	return dir
}

// gpl is the notice of a file under GPL-3.0, which licensecheck knows by its text.
const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see <http://www.gnu.org/licenses/>.
`

func TestCollect(t *testing.T) {
	one := module{Path: "example.com/one", Version: "v1.0.0", Dir: folderWith(t, map[string]string{"LICENSE": isc, "NOTICE": "One, \xa9 by Ann.\n", "licence.go": gpl})}
	two := module{Path: "example.com/two", Version: "v2.0.0", Dir: folderWith(t, map[string]string{"LICENCE.txt": strings.ReplaceAll(isc, "\n", "\r\n")})}
	texts, rows, err := collect([]module{one, two})
	if err != nil {
		t.Fatal(err)
	}
	if want := "example.com/one v1.0.0\tISC|example.com/two v2.0.0\tISC"; strings.Join(rows, "|") != want {
		t.Errorf("rows %q, want %s", rows, want)
	}
	got := render(texts)
	if !strings.Contains(got, "\nexample.com/one v1.0.0\nexample.com/two v2.0.0\n") || strings.Count(got, "Permission to use") != 1 {
		t.Errorf("the licence is not there once, with both modules:\n%s", got)
	}
	if !strings.Contains(got, "\nOne, © by Ann.\n") || strings.Contains(got, "free software") {
		t.Errorf("the notice is missing, or a source file is taken for a licence:\n%s", got)
	}

	none := module{Path: "example.com/none", Version: "v1.0.0", Dir: folderWith(t, map[string]string{"README.md": "free"})}
	foreign := module{Path: "example.com/foreign", Version: "v1.0.0", Dir: folderWith(t, map[string]string{"COPYING": gpl})}
	_, _, err = collect([]module{one, none, foreign})
	for _, want := range []string{"example.com/none v1.0.0: no licence found", "example.com/foreign v1.0.0: licence GPL-3.0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("collect = %v, want an error with %q", err, want)
		}
	}
}

// TestForeignLicence: a build that contains a module under GPL-3.0 is refused, and one without it is not.
func TestForeignLicence(t *testing.T) {
	if testing.Short() {
		t.Skip("lists builds for three systems; run without -short")
	}
	root := folderWith(t, map[string]string{
		"go.mod":    "module example.com/program\n\ngo 1.26\n\nrequire (\n\texample.com/copyleft v1.0.0\n\texample.com/free v1.0.0\n)\n\nreplace (\n\texample.com/copyleft => ./copyleft\n\texample.com/free => ./free\n)\n",
		"main.go":   "package main\n\nimport _ \"example.com/free\"\n\nfunc main() {}\n",
		"tagged.go": "//go:build tagged\n\npackage main\n\nimport _ \"example.com/copyleft\"\n",
	})
	for name, licence := range map[string]string{"copyleft": gpl, "free": isc} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"go.mod": "module example.com/" + name + "\n\ngo 1.26\n", "p.go": "package " + name + "\n", "LICENSE": licence} {
			envstest.Write(t, filepath.Join(root, name, file), content)
		}
	}
	var table strings.Builder
	if err := run(root, "", "", []string{"."}, &table); err != nil || !strings.Contains(table.String(), "example.com/free v1.0.0\tISC") || strings.Contains(table.String(), "copyleft") {
		t.Errorf("without copyleft: %v, %s", err, table.String())
	}
	err := run(root, "tagged", "", []string{"."}, &table)
	if err == nil || !strings.Contains(err.Error(), "example.com/copyleft v1.0.0: licence GPL-3.0") {
		t.Errorf("with copyleft: %v, want an error about GPL-3.0", err)
	}
}

// TestServer: the notices of the server's build have its modules and Go's own licence.
func TestServer(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the build for three systems; run without -short")
	}
	out := filepath.Join(t.TempDir(), "notices")
	if err := run("../..", "", out, []string{"./server"}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	data := envstest.Read(t, out)
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	golicence, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE"))
	if err != nil {
		t.Skipf("this Go has no LICENSE: %v", err)
	}
	for _, want := range []string{"\ngithub.com/gorilla/websocket v", "\nk8s.io/client-go v", strings.TrimSpace(string(golicence))} {
		if !strings.Contains(data, want) {
			t.Errorf("the notices of the server do not hold %.60q", want)
		}
	}
	if strings.Contains(data, "\ngithub.com/kubernasium/") {
		t.Error("the notices name this repository")
	}
}

// TestEmbedded: data of others that a package embeds is in the notices by its licence file.
func TestEmbedded(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the build for three systems; run without -short")
	}
	out := filepath.Join(t.TempDir(), "notices")
	if err := run("../..", "", out, []string{"./trainer/sample"}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	text := envstest.Read(t, out)
	for _, want := range []string{"\ngithub.com/kubernasium/kubernasium/trainer/sample/data/gang\n", "Copyright 2014-2024 Numenta Inc.", "hkust-adsl/kubernetes-scheduler-simulator"} {
		if !strings.Contains(text, want) {
			t.Errorf("the notices lack %q", want)
		}
	}
}
