//go:build linux

package powerfs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Requests of the kernel to nodes.
var (
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeFlusher   = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
)

func (n *node) attr(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink = syscall.S_IFREG|0o644, uint64(len(n.data)), 1
	if n.folder {
		out.Mode = syscall.S_IFDIR | 0o755
	}
}

// Create implements [fs.NodeCreater].
func (n *node) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if err := n.fsys.change(); err != 0 {
		return nil, nil, 0, err
	}
	child := n.fsys.child(ctx, n, name, false)
	child.attr(&out.Attr)
	return child.EmbeddedInode(), nil, 0, 0
}

// Mkdir implements [fs.NodeMkdirer].
func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if err := n.fsys.change(); err != 0 {
		return nil, err
	}
	child := n.fsys.child(ctx, n, name, true)
	child.attr(&out.Attr)
	return child.EmbeddedInode(), 0
}

// Unlink implements [fs.NodeUnlinker]. The package fs removes the child.
func (n *node) Unlink(context.Context, string) syscall.Errno { return n.changed() }

// Rmdir implements [fs.NodeRmdirer]. The package fs removes the child.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	if child := n.GetChild(name); child != nil && len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	return n.changed()
}

// Rename implements [fs.NodeRenamer]. The package fs moves the child.
func (n *node) Rename(context.Context, string, fs.InodeEmbedder, string, uint32) syscall.Errno {
	return n.changed()
}

func (n *node) changed() syscall.Errno {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	return n.fsys.change()
}

// Open implements [fs.NodeOpener].
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if n.fsys.dark {
		return nil, 0, syscall.EIO
	}
	return nil, 0, 0
}

// Read implements [fs.NodeReader].
func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if n.fsys.dark {
		return nil, syscall.EIO
	}
	from := min(off, int64(len(n.data)))
	return fuse.ReadResultData(append([]byte(nil), n.data[from:min(from+int64(len(dest)), int64(len(n.data)))]...)), 0
}

// Write implements [fs.NodeWriter].
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if err := n.fsys.change(); err != 0 {
		return 0, err
	}
	n.resize(max(int64(len(n.data)), off+int64(len(data))))
	copy(n.data[off:], data)
	return uint32(len(data)), 0
}

func (n *node) resize(size int64) {
	if more := size - int64(len(n.data)); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	n.data = n.data[:size]
}

// Fsync implements [fs.NodeFsyncer], for files and folders.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	err := n.fsys.change()
	if err == 0 {
		n.fsync()
	}
	return err
}

// Flush implements [fs.NodeFlusher]. It syncs nothing, as close syncs nothing.
func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

// Getattr implements [fs.NodeGetattrer].
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	n.attr(&out.Attr)
	return 0
}

// Setattr implements [fs.NodeSetattrer].
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.fsys.mu.Lock()
	defer n.fsys.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		if err := n.fsys.change(); err != 0 {
			return err
		}
		n.resize(int64(size))
	}
	n.attr(&out.Attr)
	return 0
}
