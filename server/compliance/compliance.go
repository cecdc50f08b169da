// Package compliance tests any server that claims the protocol kubernasium.v1.
package compliance

import (
	"cmp"
	"testing"
)

// Options adapt [Run] to a server.
type Options struct {
	Token string // bearer token
	Env   string // id of an environment with Discrete actions that include 0; default classic/CartPole-v1
}

// Run checks that the server at url (ws://…/v1/ws) conforms to server/PROTOCOL.md: the handshake, ids, limits and the
// state after a rejected request, malformed frames of all kinds, clients that vanish or resume, seeds, masks, the modes
// of autoreset, and the server's optional parts. The server must permit two sessions of 64 environments.
func Run(t *testing.T, url string, opts Options) {
	t.Helper()
	opts.Env = cmp.Or(opts.Env, "classic/CartPole-v1")
	s := suite{url, opts}
	t.Run("subprotocol", s.checkSubprotocol)
	t.Run("handshake", s.checkHandshake)
	t.Run("ids", s.checkIDs)
	t.Run("unknown messages", s.checkUnknown)
	t.Run("malformed frames", s.checkMalformed)
	t.Run("truncated frames", s.checkTruncated)
	t.Run("bad arrays", s.checkBadArrays)
	t.Run("text frames", s.checkText)
	t.Run("oversize", s.checkOversize)
	t.Run("fragments and pings", s.checkFragments)
	t.Run("pipelining", s.checkPipelining)
	t.Run("resources", s.checkResources)
	t.Run("order of calls", s.checkOrder)
	t.Run("actions", s.checkActions)
	t.Run("seeds", s.checkSeeds)
	t.Run("reset mask", s.checkResetMask)
	t.Run("next step", s.checkNextStep)
	t.Run("same step", s.checkSameStep)
	t.Run("disabled", s.checkDisabled)
	t.Run("time limit", s.checkTimeLimit)
	t.Run("policy", s.checkPolicy)
	t.Run("rollout", s.checkRollout)
	t.Run("snapshot", s.checkSnapshot)
	t.Run("fork", s.checkFork)
	t.Run("state", s.checkState)
	t.Run("resume", s.checkResume)
	t.Run("cancel", s.checkCancel)
	t.Run("deadlines", s.checkDeadline)
	t.Run("send and recv", s.checkAsync)
	t.Run("isolated failures", s.checkEnvError)
	t.Run("parts of observations", s.checkObsKeys)
	t.Run("compressed frames", s.checkZstd)
	t.Run("slow reader", s.checkSlowReader)
	t.Run("vanishing clients", s.checkVanish)
}

type suite struct {
	url  string
	opts Options
}
