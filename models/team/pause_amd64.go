//go:build !purego

package team

// pause gives the core to its other hardware thread for some tens of cycles.
func pause()
