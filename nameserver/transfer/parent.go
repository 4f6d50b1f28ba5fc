package transfer

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	askAgain = time.Hour        // between two looks at the parents
	askTime  = 20 * time.Second // for one of them
)

// askParents looks for DS records in the parents of zones whose keys wait for
// them, until ctx ends. Where a parent cannot be asked the key waits on.
func (s *Server) askParents(ctx context.Context) {
	if s.Parent == nil || len(s.signers) == 0 {
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
			if err != nil && !failed[origin] && ctx.Err() == nil { // once, not each hour
				s.log.Warn("the parent cannot be asked for a zone's DS records; its key waits, or say \"shuultuur zone roll -ds-seen\"", "zone", origin, "err", err)
			}
			failed[origin] = err != nil
			if seen {
				s.log.Info("the parent has the DS record of a zone's new key", "zone", origin)
			}
		}
		if !sleep(ctx, askAgain) {
			return
		}
	}
}

func (s *Server) askParent(ctx context.Context, origin string) (seen bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ds, err := s.Parent(ctx, origin)
	if err != nil {
		return false, err
	}
	return s.signers[origin].ParentHas(ds, time.Now())
}
