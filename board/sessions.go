package board

import (
	"cmp"
	"slices"
)

// mostSessions bounds how many sessions the page lists.
const mostSessions = 200

// SessionInfo describes a client's session at a server.
type SessionInfo struct {
	ID           string     `json:"id"`
	Connected    bool       `json:"connected"` // false while it waits for its client to resume it
	Running      bool       `json:"running"`   // a request is carried out
	Waiting      int        `json:"waiting"`   // requests behind it
	Environments []LiveEnvs `json:"environments"`
}

// LiveEnvs are environments of one kind that a session holds.
type LiveEnvs struct {
	Env     string `json:"env"`
	NumEnvs int    `json:"num_envs"`
	Steps   uint64 `json:"steps"` // of all of them, since they were made
}

// SessionList lists the sessions with most environments, and counts all.
type SessionList struct {
	Open     int           `json:"open"`
	Sessions []SessionInfo `json:"sessions"`
}

func (s *Server) sessions() (any, error) {
	all := s.cfg.Sessions()
	size := func(s SessionInfo) (n int) {
		for _, e := range s.Environments {
			n += e.NumEnvs
		}
		return n
	}
	slices.SortFunc(all, func(a, b SessionInfo) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.ID, b.ID)) })
	shown := list(all[:min(len(all), mostSessions)])
	for i := range shown {
		shown[i].Environments = list(shown[i].Environments)
	}
	return &SessionList{len(all), shown}, nil
}
