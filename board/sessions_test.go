package board_test

import (
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/board"
)

// TestSessions: of many sessions the page lists the 200 with most environments, and counts all.
func TestSessions(t *testing.T) {
	page := serve(t, board.Config{Sessions: func() (all []board.SessionInfo) {
		for i := range 250 {
			all = append(all, board.SessionInfo{ID: fmt.Sprint(i), Environments: []board.LiveEnvs{{NumEnvs: i}, {NumEnvs: 1}}})
		}
		return all
	}})
	var list board.SessionList
	call(t, page, "GET", "/api/sessions", nil, &list)
	if list.Open != 250 || len(list.Sessions) != 200 || list.Sessions[0].ID != "249" || list.Sessions[199].ID != "50" {
		t.Errorf("%d sessions of %d, from %s to %s; want 200 of 250, from 249 to 50", len(list.Sessions), list.Open, list.Sessions[0].ID, list.Sessions[len(list.Sessions)-1].ID)
	}
	if code := call(t, serve(t, board.Config{}), "GET", "/api/sessions", nil, nil); code != 404 {
		t.Errorf("without a server: %d, want 404", code)
	}
}
