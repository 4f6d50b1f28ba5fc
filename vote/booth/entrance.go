//go:build !small

package booth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/vote"
)

// goneFor is how long votes from before an erasure may still arrive: nodes that
// were away learn of an erasure within this time.
const goneFor = 7 * 24 * time.Hour

// An entrance writes all votes to the log: those of clients, of other nodes and
// of a stream. It leaves out votes that were in transit while their voter was
// erased, but acknowledges them, so that they are not sent again.
//
// Names are kept as keyed hashes, also over a restart.
type entrance struct {
	log    vote.Log
	beside atomic.Pointer[beside] // set when the log is handed over
	file   string
	key    []byte

	mu   sync.RWMutex     // held for reading while votes go into the log
	gone map[string]int64 // guarded by mu: when people were erased, in Unix milliseconds, by the hash of each name
}

func openEntrance(log vote.Log, file string, key []byte) (*entrance, error) {
	e := &entrance{log: log, file: file, key: key, gone: map[string]int64{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading whose votes were erased: %w; without %s, votes of theirs that are still on their way count", err, file)
	}
	if json.Unmarshal(text, &e.gone) != nil || e.gone == nil {
		e.gone = map[string]int64{}
		return e, atomicfile.SetAside(file)
	}
	return e, nil
}

// Append implements [vote.Log].
func (e *entrance) Append(ctx context.Context, records ...[]byte) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if len(e.gone) > 0 {
		var left [][]byte
		for _, r := range records {
			if v, err := vote.Parse(r); err != nil || !e.erased(&v) {
				left = append(left, r)
			}
		}
		if records = left; len(records) == 0 {
			return nil
		}
	}
	if s := e.beside.Load(); s != nil {
		return s.Append(ctx, records...)
	}
	return e.log.Append(ctx, records...)
}

// erased reports whether a vote is older than the erasure of its voter.
func (e *entrance) erased(v *vote.Vote) bool {
	for _, name := range []string{v.Event.User, v.Event.Client} {
		if at, ok := e.gone[e.hash(name)]; ok && name != "" && v.At.UnixMilli() <= at {
			return true
		}
	}
	return false
}

func (e *entrance) hash(name string) string {
	h := hmac.New(sha256.New, e.key)
	h.Write([]byte("erased\x00" + name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// erase notes that a person's votes are erased. When it returns, each earlier
// vote either is in the log or will never be.
func (e *entrance) erase(p *vote.Person) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for name, at := range e.gone {
		if now.Sub(time.UnixMilli(at)) > goneFor {
			delete(e.gone, name)
		}
	}
	for _, names := range [][]string{p.Users, p.Clients} {
		for _, name := range names {
			e.gone[e.hash(name)] = now.UnixMilli()
		}
	}
	text, err := json.Marshal(e.gone)
	if err == nil {
		err = atomicfile.Write(e.file, 0o600, func(f *os.File) error { _, err := f.Write(text); return err })
	}
	if err != nil {
		return fmt.Errorf("noting whose votes were erased: %w", err)
	}
	return nil
}
