package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	path    = "github.com/kubernasium/kubernasium"
	version = "v0.1.0"
)

// TestZip: the module can be packed by Go's rules, with what programs embed and without modules of their own.
func TestZip(t *testing.T) {
	if testing.Short() {
		t.Skip("packs the repository; run without -short")
	}
	proxy := t.TempDir()
	if err := write("../..", proxy, version); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(proxy, filepath.FromSlash(path), "@v", version+".zip")
	if checked, err := modzip.CheckZip(module.Version{Path: path, Version: version}, name); err != nil {
		t.Fatalf("CheckZip: %v %v", err, checked.Err())
	}
	r, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for _, f := range r.File {
		names = append(names, strings.TrimPrefix(f.Name, path+"@"+version+"/"))
	}
	for _, want := range []string{"LICENSE", "go.mod", "server/main.go", "board/dist/app.js", "models/fused/kernels_amd64.s"} {
		if !slices.Contains(names, want) {
			t.Errorf("the zip has no %s", want)
		}
	}
	if i := slices.IndexFunc(names, func(n string) bool { return n != "go.mod" && strings.HasSuffix(n, "/go.mod") }); i >= 0 {
		t.Errorf("the zip has %s of another module", names[i])
	}
}

// TestReplaceIsRefused: a module with replace directives would build here, and not by go install.
func TestReplaceIsRefused(t *testing.T) {
	root := t.TempDir()
	mod := "module example.com/m\n\ngo 1.26\n\nreplace example.com/n => ../n\n"
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte(mod), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(root, t.TempDir(), version); err == nil || !strings.Contains(err.Error(), "replace") {
		t.Errorf("write = %v, want an error about replace", err)
	}
}

// TestInstall installs both programs of a version into an empty folder, from the zip and with a module cache of its own.
func TestInstall(t *testing.T) {
	if os.Getenv("KUBERNASIUM_INSTALL") == "" {
		t.Skip("compiles every package of this module again; make test-install enables it")
	}
	proxy, bin, cache := t.TempDir(), t.TempDir(), t.TempDir()
	if err := write("../..", proxy, version); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Fields(string(out))
	cmd := exec.Command("go", "install", "-trimpath", path+"/server@"+version, path+"/trainer@"+version)
	cmd.Dir = bin // outside any module
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOSUMDB=off", "CGO_ENABLED=0",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(env[0], "cache", "download")+","+env[1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	for _, program := range []string{"server", "trainer"} {
		out, err := exec.Command(filepath.Join(bin, program), "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		want := program + " version 0.1.0\nmodule: " + path + " v0.1.0\ncommit: that of the tag v0.1.0\ngo: " + runtime.Version()
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s --version printed\n%s\nwant it to begin with\n%s", program, out, want)
		}
	}
}
