package transfer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/wait"
	"shuultuur/zone/sign"
)

const (
	askAgain = time.Hour        // between two queries to the parents
	askTime  = 20 * time.Second // for one query
)

// ParentDS looks up the DS records that the parent zone has of a zone; there may be none.
type ParentDS func(ctx context.Context, origin string) ([]*miekg.DS, error)

// keepers roll the keys of the zones that the settings sign.
type keepers struct {
	signers map[string]*sign.Signer // by origin
	parent  ParentDS                // nil if there is no resolver
	log     *slog.Logger
	failed  map[string]string // errors of roll, by origin
}

// roll takes the steps of rollovers that are due.
func (s *keepers) roll(now time.Time) {
	for origin, signer := range s.signers {
		changed, err := signer.Roll(now)
		if err != nil && s.failed[origin] != err.Error() { // log once, not each minute
			s.log.Error("the keys of a zone cannot be read; it is signed with the previous ones", "zone", origin, "error", err)
		}
		delete(s.failed, origin)
		if err != nil {
			s.failed[origin] = err.Error()
		}
		if changed {
			s.log.Info("the keys of a zone have changed", "zone", origin)
		}
	}
}

// askParents looks up DS records in the parents of zones whose keys wait for them, until ctx
// ends. If a parent cannot be queried, the key continues to wait.
func (s *keepers) askParents(ctx context.Context) {
	if s.parent == nil || len(s.signers) == 0 {
		return
	}
	failed := map[string]bool{}
	for {
		for _, origin := range slices.Sorted(maps.Keys(s.signers)) {
			signer := s.signers[origin]
			if !signer.AwaitsParent(time.Now()) {
				continue
			}
			seen, err := s.askParent(ctx, origin)
			if err != nil && !failed[origin] && ctx.Err() == nil { // log once, not each hour
				s.log.Warn("the parent cannot be asked for a zone's DS records; its key waits, or say \"shuultuur zone roll -ds-seen\"", "zone", origin, "error", err)
			}
			failed[origin] = err != nil
			if seen {
				s.log.Info("the parent has the DS record of a zone's new key", "zone", origin)
			}
		}
		if wait.For(ctx, askAgain) != nil {
			return
		}
	}
}

func (s *keepers) askParent(ctx context.Context, origin string) (seen bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ds, err := s.parent(ctx, origin)
	if err != nil {
		return false, err
	}
	return s.signers[origin].ParentHas(ds, time.Now())
}
