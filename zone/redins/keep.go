package redins

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/zeebo/xxh3"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/wait"
	"shuultuur/zone"
)

// Each zone is kept in a file, in the form that Redis has, so that it can be served at a start
// without Redis:
//
//	magic     "shuultuur zone of redis 1\n"
//	source    schema, prefix, suffix and database it was read from
//	name      of the zone as Redis lists it
//	settings  config, and four keys
//	values    for each 1 (1 byte), label, type, JSON; then 0
//	checksum  XXH3-128 of all before
//
// Strings are preceded by their length (4 bytes, big endian). The file has the zone's private
// keys, so only the owner may read it. To write it, the zone is read from Redis again, because
// only checksums of names stay in memory.
const (
	magic    = "shuultuur zone of redis 1\n"
	ending   = ".redis"
	checksum = 16

	// keepTick is how often changed zones are looked for.
	keepTick = time.Second
	// keepRest is the shortest time between two writes of a zone's file; keepShare is the same
	// as a multiple of the time that writing took.
	keepRest  = 10 * time.Second
	keepShare = 20
)

// source identifies where zones come from. Files from other settings are not
// served.
func (s *Source) source() string {
	return fmt.Sprintf("%s %q %q %d", s.cfg.Schema, s.cfg.Redis.Prefix, s.cfg.Suffix, s.cfg.Redis.DB)
}

// file returns the path of a zone's file.
func (s *Source) file(name string) string {
	base := url.PathEscape(strings.TrimSuffix(name, "."))
	if len(base) > 200 {
		sum := sha256.Sum256([]byte(base))
		base = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.folder, base+ending)
}

// keepZones writes changed zones, until ctx ends.
func (s *Source) keepZones(ctx context.Context, store *Store) {
	for reported := ""; wait.For(ctx, keepTick) == nil; {
		for _, name := range s.unkept(time.Now()) {
			began := time.Now()
			err := s.save(ctx, store, name)
			if ctx.Err() != nil {
				return
			}
			s.mu.Lock()
			k := s.known[name]
			if k != nil {
				k.unkept = k.unkept || err != nil
				k.keep = time.Now().Add(max(keepRest, keepShare*time.Since(began)))
			} else if err == nil { // removed in the meantime
				err = os.Remove(s.file(name))
			}
			s.mu.Unlock()
			if err != nil && reported != err.Error() {
				reported = err.Error()
				s.log.Error("zone in Redis cannot be saved; a start without Redis would serve the copy saved before", "zone", name, "error", err)
			}
		}
	}
}

// unkept returns the zones to write now.
func (s *Source) unkept(now time.Time) (due []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.known {
		if k.unkept && now.After(k.keep) {
			k.unkept = false
			due = append(due, name)
		}
	}
	return due
}

// save writes one zone as Redis has it now.
func (s *Source) save(ctx context.Context, store *Store, name string) error {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	in := store.session(ctx)
	defer in.Close()
	r, err := store.settings(in, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.folder, 0o750); err != nil {
		return err
	}
	return atomicfile.Write(s.file(name), 0o600, func(f *os.File) error {
		sum := xxh3.New()
		w := bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)
		put := func(text []byte) {
			_, _ = w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), uint32(len(text))))
			_, _ = w.Write(text) // Flush has the error
		}
		_, _ = w.WriteString(magic)
		for _, text := range []string{s.source(), name, string(r.config), r.keys.ZSKPublic, r.keys.ZSKPrivate, r.keys.KSKPublic, r.keys.KSKPrivate} {
			put([]byte(text))
		}
		n := &names{}
		if err := store.eachName(in, name, n, nil, func(place int32, values []value) error {
			for _, v := range values {
				_ = w.WriteByte(1)
				put(n.label(place))
				put([]byte(v.typ))
				put(v.json)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("read zone %q from Redis: %w", name, err)
		}
		_ = w.WriteByte(0)
		if err := w.Flush(); err != nil {
			return err
		}
		end := sum.Sum128().Bytes()
		_, err := f.Write(end[:])
		return err
	})
}

// restore serves the kept zones, for a start without Redis. Unusable files are logged, and the
// others served.
func (s *Source) restore() {
	if s.folder == "" || s.restored {
		return
	}
	s.restored = true
	files, err := os.ReadDir(s.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error("saved zones of Redis cannot be listed", "folder", s.folder, "error", err)
	}
	count := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ending) {
			continue
		}
		file := filepath.Join(s.folder, f.Name())
		name, r, err := s.loadKept(file)
		if err == nil {
			err = s.serveKept(name, r)
		}
		if err != nil {
			s.failures.Add(1)
			s.log.Error("a saved zone cannot be served until Redis is back", "file", file, "error", err)
			continue
		}
		count++
	}
	if count > 0 {
		s.log.Warn("zones are served from saved copies until Redis is back", "zones", count, "folder", s.folder)
	}
}

func (s *Source) loadKept(file string) (name string, r *raw, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", nil, err
	}
	if info.Size() > 2*int64(maxBytes) {
		return "", nil, fmt.Errorf("it has %d bytes; a saved zone has at most %d", info.Size(), 2*int64(maxBytes))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	source, name, r, err := readKept(b)
	switch {
	case err != nil:
		return "", nil, err
	case source != s.source():
		return "", nil, fmt.Errorf("it was read from %s, the settings say %s", source, s.source())
	case s.file(name) != file:
		return "", nil, fmt.Errorf("it is for zone %q", name)
	}
	store := &Store{Schema: s.cfg.Schema, Prefix: s.cfg.Redis.Prefix, Suffix: s.cfg.Suffix}
	r.key = store.config(name)
	for i := range r.values {
		v := &r.values[i]
		v.key = store.key(name, v.label, v.typ)
	}
	return name, r, nil
}

// readKept parses a file; the input may be anything.
func readKept(b []byte) (source, name string, r *raw, err error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return "", "", nil, errors.New("it is not a zone of Redis in this format")
	}
	end := len(b) - checksum
	if end < len(magic) {
		return "", "", nil, errEnds
	}
	if sum := xxh3.Hash128(b[:end]).Bytes(); !bytes.Equal(sum[:], b[end:]) {
		return "", "", nil, errors.New("its checksum is wrong")
	}
	return parseKept(b[len(magic):end])
}

var errEnds = errors.New("it is too short or too long")

// parseKept reads the bytes between magic and checksum.
func parseKept(b []byte) (source, name string, r *raw, err error) {
	text := func() []byte {
		if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
			b, err = nil, errEnds
			return nil
		}
		n := 4 + int(binary.BigEndian.Uint32(b))
		t := b[4:n:n]
		b = b[n:]
		return t
	}
	source, name = string(text()), string(text())
	r = &raw{origin: zone.Canonical(name), names: &names{}}
	if config := text(); len(config) > 0 {
		r.config = bytes.Clone(config)
	}
	r.keys = Keys{string(text()), string(text()), string(text()), string(text())}
	for err == nil && len(b) > 0 && b[0] == 1 {
		b = b[1:]
		v := value{label: string(text()), typ: string(text()), json: text()}
		if err == nil {
			var place int32
			var fresh bool
			place, fresh, err = r.names.add([]byte(v.label))
			if !fresh && v.typ == "" && int(place) < len(r.values) { // a hash that changes may return a field twice
				r.values[place] = v
				continue
			}
			r.values = append(r.values, v)
		}
	}
	if err == nil && (len(b) != 1 || b[0] != 0) {
		err = errEnds
	}
	if err != nil {
		return "", "", nil, err
	}
	if _, ok := miekg.IsDomainName(r.origin); !ok || name == "" {
		return "", "", nil, fmt.Errorf("it is for %q, which is not a domain name", name)
	}
	return source, name, r, nil
}

// serveKept serves a kept zone, unless it is served already.
func (s *Source) serveKept(name string, r *raw) error {
	s.mu.Lock()
	k := s.known[name]
	fresh := k == nil
	if fresh {
		k = &zoneState{origin: r.origin}
		s.known[name] = k
	}
	s.mu.Unlock()
	if k.served {
		return nil
	}
	if b, err := s.serve(k, r, r.sum(), time.Now()); err != nil {
		for _, st := range b.watched {
			s.checker.Drop(st)
		}
		if fresh {
			s.mu.Lock()
			delete(s.known, name)
			s.mu.Unlock()
		}
		return err
	}
	s.mu.Lock()
	k.kept, k.unkept = true, false
	s.mu.Unlock()
	return nil
}
