package kerberos

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
)

// ErrReplay reports that a token was used before: it may have been copied.
var ErrReplay = errors.New("the token was used before (replay)")

var errManyTokens = errors.New("more tokens came than can be remembered; try again in a moment")

const (
	// maxReplay is the most tokens that are remembered within twice the skew.
	maxReplay = 1 << 18
	// longestSpan is twice the longest skew.
	longestSpan = 2 * time.Hour
	// syncAfter is how long after a token the file is on the disk at the latest: a power failure
	// may lose what came later.
	syncAfter = time.Second

	entrySize = 8 + sha256.Size // the time in seconds, and the token
	maxFile   = 4 * maxReplay * entrySize
)

// Replays remembers tokens while they could be used again, in a file as well: a restart forgets
// none. It stores only valid tokens, so that invalid ones cannot fill it.
type Replays struct {
	path string // of the file; "" for none

	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{}
	turned   time.Time
	file     *os.File // entries are appended to it; nil if there is none
	syncing  bool
	err      error // why the file does not have all of them
}

// NewReplays returns the tokens in a file, which need not be there. "" is for none.
func NewReplays(file string) *Replays {
	r := &Replays{path: file, now: map[[sha256.Size]byte]struct{}{}}
	if file != "" {
		r.err = r.open(time.Now())
	}
	return r
}

// open reads the file, and writes it anew without the tokens that are of no use any more. What
// follows a damaged place is read by the same steps: each entry stands for itself.
func (r *Replays) open(now time.Time) error {
	data, err := readFile(r.path)
	if err != nil {
		return err
	}
	keep := data[:0]
	for ; len(data) >= entrySize; data = data[entrySize:] {
		at := time.Unix(int64(binary.BigEndian.Uint64(data)), 0)
		if now.Sub(at) <= longestSpan && len(r.now) < maxReplay { // entries of the future stay: a clock was set
			r.now[[sha256.Size]byte(data[8:])] = struct{}{}
			keep = append(keep, data[:entrySize]...)
		}
	}
	r.turned = now
	return r.renew(keep)
}

// readFile reads the entries of the file.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// renew writes the file with entries, and opens it for further ones.
func (r *Replays) renew(entries []byte) error {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
	err := atomicfile.Write(r.path, 0o600, func(w *os.File) error {
		_, err := w.Write(entries)
		return err
	})
	if err == nil {
		r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND, 0)
	}
	return err
}

// add remembers a token for at least span, or fails if it is already there.
func (r *Replays) add(token [sha256.Size]byte, at time.Time, span time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := at.Sub(r.turned); {
	case since > 2*span:
		r.now, r.old, r.turned = map[[sha256.Size]byte]struct{}{}, nil, at
		r.turn(at)
	case since > span:
		r.now, r.old, r.turned = map[[sha256.Size]byte]struct{}{}, r.now, at
		r.turn(at)
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
	r.keep(token, at)
	return nil
}

// turn writes the file anew with the tokens that still count. The caller holds the lock.
func (r *Replays) turn(at time.Time) {
	if r.path == "" {
		return
	}
	entries := make([]byte, 0, len(r.old)*entrySize)
	for token := range r.old {
		entries = append(binary.BigEndian.AppendUint64(entries, uint64(at.Unix())), token[:]...)
	}
	r.err = r.renew(entries)
}

// keep appends a token to the file. The caller holds the lock.
func (r *Replays) keep(token [sha256.Size]byte, at time.Time) {
	if r.file == nil {
		return
	}
	entry := append(binary.BigEndian.AppendUint64(make([]byte, 0, entrySize), uint64(at.Unix())), token[:]...)
	if _, err := r.file.Write(entry); err != nil {
		r.file.Close() // a part of the entry may be in it: the next turn writes it anew
		r.file, r.err = nil, err
		return
	}
	if !r.syncing {
		r.syncing = true
		time.AfterFunc(syncAfter, r.sync)
	}
}

// sync has the file written to the disk.
func (r *Replays) sync() {
	r.mu.Lock()
	r.syncing = false
	f := r.file
	r.mu.Unlock()
	if f == nil {
		return
	}
	if err := atomicfile.Sync(f); err != nil && !errors.Is(err, os.ErrClosed) { // it has been written anew
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}
}

// Problem returns why a restart would forget tokens, or nil.
func (r *Replays) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("tickets that were used are not remembered over a restart: %w", r.err)
}
