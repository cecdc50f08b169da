package clitest

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/tracking/trackingtest"
)

// CheckPNG fails the test unless the file is an image of the given height.
func CheckPNG(t *testing.T, path string, height int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if size := img.Bounds().Size(); size.X != 1350 || size.Y != height {
		t.Errorf("%s is of size %v, want 1350 × %d", path, size, height)
	}
}

// Events returns the events of the only event file in a folder.
func Events(t *testing.T, dir string) []trackingtest.Event {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("event files %v, %v; want one", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := trackingtest.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
