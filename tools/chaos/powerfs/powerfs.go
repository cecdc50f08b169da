//go:build linux

// Package powerfs is a file system in memory with simulated power losses. A power loss discards the data of
// files without fsync, and names in folders likewise. It shows whether a program's files survive.
package powerfs

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A Loss defines which unsynced changes survive a power loss.
type Loss int

const (
	// Strict keeps none, neither data nor names, as POSIX permits.
	Strict Loss = iota
	// Names keeps new names and renames, but no data, so that empty files appear. File systems that journal
	// only metadata behave so.
	Names
)

// FS is a mounted file system.
type FS struct {
	mu     sync.Mutex
	root   *node
	server *fuse.Server
	left   int // changes until the power fails
	dark   bool
	failed chan struct{}
	ops    int
}

// A node is a file or a folder.
type node struct {
	fs.Inode
	fsys    *FS
	folder  bool
	data    []byte
	synced  []byte           // the data at the last fsync
	entries map[string]*node // of a folder, at its last fsync
}

// Mount mounts a file system at an empty folder, with the contents of another folder, all synced. Its power
// fails after the given number of changes; 0 is never. It needs root and /dev/fuse.
func Mount(at, contents string, changes int) (*FS, error) {
	f := &FS{left: changes, failed: make(chan struct{})}
	f.root = f.newNode(true)
	server, err := fs.Mount(at, f.root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "powerfs", DisableXAttrs: true}})
	if err != nil {
		return nil, err
	}
	f.server = server
	f.mu.Lock()
	defer f.mu.Unlock()
	if contents == "" {
		return f, nil
	}
	if err := f.load(f.root, contents); err != nil {
		_ = server.Unmount() // the first error explains more
		return nil, err
	}
	return f, nil
}

func (f *FS) newNode(folder bool) *node {
	return &node{fsys: f, folder: folder, entries: map[string]*node{}}
}

// child adds a node to a folder.
func (f *FS) child(ctx context.Context, in *node, name string, folder bool) *node {
	n := f.newNode(folder)
	mode := uint32(syscall.S_IFREG)
	if folder {
		mode = syscall.S_IFDIR
	}
	in.AddChild(name, in.NewPersistentInode(ctx, n, fs.StableAttr{Mode: mode}), true)
	return n
}

// load fills a folder.
func (f *FS) load(in *node, dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		n := f.child(context.Background(), in, e.Name(), e.IsDir())
		in.entries[e.Name()] = n
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = f.load(n, path)
		} else {
			n.data, err = os.ReadFile(path)
			n.synced = bytes.Clone(n.data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Failed is closed when the power fails. From then on every request returns an error.
func (f *FS) Failed() <-chan struct{} { return f.failed }

// Changes returns the number of requests that have changed or synced something.
func (f *FS) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Unmount unmounts the file system. No program may be using it.
func (f *FS) Unmount() error { return f.server.Unmount() }

// Image writes the contents that survive a power loss to a folder.
func (f *FS) Image(dir string, loss Loss) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.root.image(dir, loss)
}

func (n *node) image(dir string, loss Loss) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries := n.entries
	if loss == Names {
		entries = n.now()
	}
	for name, child := range entries {
		path := filepath.Join(dir, name)
		err := error(nil)
		if child.folder {
			err = child.image(path, loss)
		} else {
			err = os.WriteFile(path, child.synced, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// now returns the current entries of a folder.
func (n *node) now() map[string]*node {
	entries := map[string]*node{}
	for name, child := range n.Children() {
		entries[name] = child.Operations().(*node)
	}
	return entries
}

// Synced returns the names of files, in any folder, that fsync of the folder has made durable and that match a
// pattern of [filepath.Match]. A program may rely on them.
func (f *FS) Synced(pattern string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	var walk func(n *node)
	walk = func(n *node) {
		for name, child := range n.entries {
			if ok, err := filepath.Match(pattern, name); ok && err == nil && !child.folder {
				found = append(found, name)
			}
		}
		for _, child := range n.now() {
			if child.folder {
				walk(child)
			}
		}
	}
	walk(f.root)
	return found
}

// change counts a change, and returns an error if the power has failed.
func (f *FS) change() syscall.Errno {
	if f.dark {
		return syscall.EIO
	}
	f.ops++
	if f.left--; f.left == 0 {
		f.dark = true
		close(f.failed)
		return syscall.EIO
	}
	return 0
}

// fsync syncs a file's data or a folder's names.
func (n *node) fsync() {
	if n.folder {
		n.entries = maps.Clone(n.now())
	} else {
		n.synced = bytes.Clone(n.data)
	}
}
