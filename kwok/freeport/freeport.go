// Package freeport chooses ports for servers that start later, or that restart at the same address.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

const (
	lowest = 10000 // below are ports of well-known services
	// ephemeral is the first port that systems give to connections, after IANA; Linux begins at 32768.
	ephemeral  = 32768
	rangeFile  = "/proc/sys/net/ipv4/ip_local_port_range"
	mostToTest = 1000
)

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Address returns an address of the loopback interface, as host:port, whose port nobody listens on. It returns each port
// once, and none that the system may give to a connection before the server listens: "127.0.0.1:0" chooses among those.
func Address() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	low, high := lowest, firstEphemeral()
	if high-low < mostToTest {
		low, high = 1024, max(high, 1024+mostToTest)
	}
	for range mostToTest {
		port := low + rand.N(high-low)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // in use
		}
		given[port] = true
		return l.Addr().String(), l.Close()
	}
	return "", fmt.Errorf("none of %d ports from %d to %d of 127.0.0.1 that were tried is free", mostToTest, low, high-1)
}

// firstEphemeral returns the first port that the system gives to connections.
func firstEphemeral() int {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return ephemeral // not Linux
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return ephemeral
	}
	return first
}
