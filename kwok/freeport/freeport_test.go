package freeport_test

import (
	"net"
	"testing"

	"github.com/kubernasium/kubernasium/kwok/freeport"
)

// TestAddress: each address is a new one, can be listened on, and is none of those that connections get.
func TestAddress(t *testing.T) {
	ephemeral := map[int]bool{} // as the system gives them
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ephemeral[l.Addr().(*net.TCPAddr).Port] = true
	}
	first := 1 << 16
	for port := range ephemeral {
		first = min(first, port)
	}
	seen := map[string]bool{}
	for range 300 {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s came twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if port := l.Addr().(*net.TCPAddr).Port; port >= first {
			t.Errorf("port %d, and connections get %d and more", port, first)
		}
		_ = l.Close()
	}
}
