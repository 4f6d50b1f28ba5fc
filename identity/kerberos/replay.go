package kerberos

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// ErrReplay reports that a token was used before: it may have been copied.
var ErrReplay = errors.New("the token was used before (replay)")

var errManyTokens = errors.New("more tokens came than can be remembered; try again in a moment")

// maxReplay is the most tokens that are remembered within twice the skew.
const maxReplay = 1 << 18

// Replays remembers tokens while they could be used again. It stores only valid
// tokens, so that invalid ones cannot fill it.
type Replays struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{}
	turned   time.Time
}

// NewReplays returns an empty Replays.
func NewReplays() *Replays {
	return &Replays{now: map[[sha256.Size]byte]struct{}{}}
}

// add remembers a token for at least span, or fails if it is already there.
func (r *Replays) add(token [sha256.Size]byte, at time.Time, span time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := at.Sub(r.turned); {
	case since > 2*span:
		r.now, r.old, r.turned = map[[sha256.Size]byte]struct{}{}, nil, at
	case since > span:
		r.now, r.old, r.turned = map[[sha256.Size]byte]struct{}{}, r.now, at
	}
	if _, ok := r.now[token]; ok {
		return ErrReplay
	}
	if _, ok := r.old[token]; ok {
		return ErrReplay
	}
	if len(r.now) >= maxReplay {
		return errManyTokens
	}
	r.now[token] = struct{}{}
	return nil
}
