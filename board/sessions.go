package board

import (
	"cmp"
	"slices"
)

// maxSessions bounds the number of listed sessions.
const maxSessions = 200

// SessionInfo describes a client's session at a server.
type SessionInfo struct {
	ID           string     `json:"id"`
	Connected    bool       `json:"connected"` // false while it waits for its client to resume
	Running      bool       `json:"running"`   // a request is running
	Waiting      int        `json:"waiting"`   // queued requests
	Environments []LiveEnvs `json:"environments"`
}

// LiveEnvs are environments of one kind that a session holds.
type LiveEnvs struct {
	Env     string `json:"env"`
	NumEnvs int    `json:"num_envs"`
	Steps   uint64 `json:"steps"` // of all environments, since they were made
}

// SessionList lists the sessions with the most environments, and counts all.
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
	shown := list(all[:min(len(all), maxSessions)])
	for i := range shown {
		shown[i].Environments = list(shown[i].Environments)
	}
	return &SessionList{len(all), shown}, nil
}
