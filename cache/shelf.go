package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"shuultuur/cache/admission"
	"shuultuur/cache/disk"
	"shuultuur/cache/peer"
	"shuultuur/lib/queue"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// A shelf holds the objects. It outlives a reload: the cache made from new settings takes it
// over.
type shelf struct {
	users atomic.Int32
	log   *slog.Logger

	most   int64  // limit of memory in bytes
	budget budget // for bodies that are being fetched

	mu      sync.RWMutex // guards the following up to queued
	memory  *queue.Queue[entry]
	policy  admission.Policy
	judged  map[Key]*verdicts            // on objects on the disk
	read    map[Key]weak.Pointer[object] // recently read from the disk and perhaps in use
	waiting map[Key]*object              // objects to be written, served until then; removed objects are neither
	queued  int64                        // bytes of objects in writes
	writing Key                          // of the object being written, for which the disk may be out of date

	disk    *disk.Store // nil for none
	writes  chan *object
	avoided atomic.Int64 // objects that left memory without ever being written
	dropped atomic.Int64 // writes for which there was no room in the queue
	warned  atomic.Int64 // when a failed write was last logged, in Unix nanoseconds

	peers *peer.Peers                  // nil for none
	front atomic.Pointer[RoundTripper] // answers peers

	changes  changes
	editions editions
	purging  sync.Mutex
	purged   atomic.Pointer[purged] // nil if nothing is purged
	notes    string                 // file of purged, "" without a disk
}

// Limits of a shelf.
const (
	maxWrites = 1024
	maxJudged = 200_000
	maxPurged = 10_000
	syncEvery = 5 * time.Second
)

func newShelf(cfg *Config, p *Parts) (*shelf, error) {
	memory := cfg.Memory.Or(defaultMemory)
	window := int(min((memory+cfg.Disk.Or(0))/usualObject, 50_000_000))
	s := &shelf{log: p.Log, most: memory, memory: queue.New[entry](memory, window), judged: map[Key]*verdicts{}, read: map[Key]weak.Pointer[object]{}, waiting: map[Key]*object{}, writes: make(chan *object, maxWrites)}
	s.memory.Evicted = s.onRemoved
	s.budget = budget{most: memory/2 + 1<<20, changed: s.shrink}
	var err error
	if cfg.Peers != nil && release.Small {
		return nil, setting.At("peers", release.Lacks("peers of the cache"))
	}
	if cfg.Peers != nil && !p.Trial {
		if s.peers, err = peer.New(*cfg.Peers, local{s}, p.Log); err != nil {
			return nil, err
		}
	}
	if s.policy, err = admission.New(cfg.Admission, window); err != nil || cfg.Disk.Or(0) == 0 {
		return s, err
	}
	dir := string(cfg.Folder)
	if dir == "" {
		dir = filepath.Join(p.Data, "cache")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, setting.At("folder", fmt.Errorf("%q is a file; name a folder", dir))
	}
	if p.Trial {
		return s, nil
	}
	if s.disk, err = disk.Open(dir, int64(cfg.Disk)); err != nil {
		return nil, err
	}
	s.notes = filepath.Join(dir, "purged")
	purged, err := readPurged(s.notes)
	if errors.Is(err, errNotes) { // anything may have been purged: start empty
		s.log.Warn("the cache's disk starts empty: its purges cannot be read", "error", err)
		s.disk.Clear()
		s.disk.Damaged.Add(1)
		err = os.Remove(s.notes)
	}
	if err != nil {
		s.disk.Close()
		return nil, fmt.Errorf("reading the purges: %w; delete the folder %s to start with an empty cache", err, dir)
	}
	if len(purged) > 0 {
		s.purged.Store(newPurged(purged))
	}
	return s, nil
}

// errNotes reports a damaged file of purges.
var errNotes = errors.New("the checksum is wrong")

// readPurged reads the purges: JSON, and its CRC-32C in hexadecimal on the last line.
func readPurged(file string) (map[string]uint64, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, sum, _ := bytes.Cut(b, []byte("\n"))
	purged, times := map[string]uint64{}, map[string]time.Time{}
	switch {
	case string(sum) != sumOf(text):
		return nil, fmt.Errorf("%s: %w", file, errNotes)
	case json.Unmarshal(text, &purged) == nil:
		return purged, nil
	case json.Unmarshal(text, &times) != nil:
		return nil, fmt.Errorf("%s: %w", file, errNotes)
	}
	// Older releases wrote times. All that they stored counts as older than these purges.
	purged = map[string]uint64{}
	for key := range times {
		purged[key] = 1
	}
	return purged, nil
}

func sumOf(b []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// run writes to the disk until ctx ends, and then writes the rest of the queue.
func (s *shelf) run(ctx context.Context) {
	if s.disk == nil {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case o := <-s.writes:
			s.write(o)
		case <-tick.C:
			_ = s.disk.Sync() // objects lost in a power cut are fetched again
		case <-ctx.Done():
			for {
				select {
				case o := <-s.writes:
					s.write(o)
				default:
					_ = s.disk.Sync()
					return
				}
			}
		}
	}
}

// leave ends the use of the shelf by one cache.
func (s *shelf) leave() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	var errs []error
	if s.peers != nil {
		errs = append(errs, s.peers.Close())
	}
	if s.disk != nil {
		errs = append(errs, s.disk.Close())
	}
	return errors.Join(errs...)
}

// onRemoved is called for objects that leave memory. The caller holds mu.
func (s *shelf) onRemoved(_ Key, e entry) {
	o := e.object
	if s.disk != nil && (o == nil || !o.written.Load()) {
		s.avoided.Add(1)
	}
	if o != nil && o.blocks != nil && !o.lent.Load() {
		o.blocks.free()
	}
}

// get returns the object with a name, from memory or from the disk.
func (s *shelf) get(name []byte) *object {
	k := hash(name)
	s.mu.RLock()
	e, uses, ok := s.memory.Get(k)
	o := e.object
	if o != nil && !o.lent.Load() {
		o.lent.Store(true)
	}
	read := s.read[k]
	waiting, writing := s.waiting[k], s.writing == k
	if !ok && waiting != nil {
		waiting.lent.Store(true)
	}
	s.mu.RUnlock()
	switch {
	case ok && o == nil:
		o = s.unpack(k, e)
	case ok:
	case waiting != nil: // the disk may still have an older one
		o = waiting
	case writing: // it was removed meanwhile
	default:
		if o = read.Value(); o == nil || !o.record.IsCurrent(k) {
			o = s.load(k)
		}
	}
	if o == nil || o.name != string(name) {
		return nil
	}
	if s.isPurged(o) {
		s.remove(name)
		return nil
	}
	if ok && s.disk != nil && !o.written.Load() {
		s.mu.Lock()
		earned := s.policy.Hit(k, uses)
		s.mu.Unlock()
		if earned {
			s.save(o)
		}
	}
	return o
}

// load reads an object from the disk.
func (s *shelf) load(k Key) *object {
	if s.disk == nil {
		return nil
	}
	r, ok := s.disk.Get(k)
	if !ok {
		return nil
	}
	o, err := decode(bytes.Clone(r.Meta))
	if err != nil {
		r.Release()
		return nil
	}
	o.hasBody(r.Body)
	o.completed() // older versions stored it as a part
	o.written.Store(true)
	defer s.attach(o, k, r) // last, because others then refer to it
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.judged[k]; v != nil {
		o.verdicts = v
		return o
	}
	if len(s.judged) >= maxJudged {
		for old := range s.judged { // a random one, which will be judged again
			delete(s.judged, old)
			break
		}
	}
	o.verdicts = &verdicts{}
	s.judged[k] = o.verdicts
	return o
}

// put stores an object in memory, and on the disk if it is admitted.
func (s *shelf) put(o *object) (in bool) {
	k := hash([]byte(o.name))
	o.written.Store(false)
	s.mu.Lock()
	admitted := s.disk != nil && (s.policy.Insert(k) || s.disk.Unfilled())
	if admitted && o.blocks != nil && o.blocks.hold() { // it may leave memory before it is on the disk
		o.saving.Store(true)
	}
	delete(s.judged, k)
	delete(s.waiting, k)
	queued := admitted && s.queue(o)
	s.mu.Unlock()
	// The previous object must not return, however soon this one leaves memory. mu must not be
	// held while the disk is busy.
	if !queued && s.disk != nil && s.disk.Has(k) {
		_ = s.disk.Remove(k)
	}
	e, weight := o.pack()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.Put(k, e, weight)
}

// replaceFields replaces o by an object with the same body and newer fields. The copy on the disk
// stays, and is validated again when used, unless it would be used for longer than the new
// one.
func (s *shelf) replaceFields(o, n *object) {
	k := hash([]byte(n.name))
	shorter := n.facts.Control.NoCache || n.facts.Expires().Before(o.facts.Expires())
	n.written.Store(o.written.Load() && !shorter)
	s.mu.Lock()
	s.memory.Put(k, entry{object: n}, n.weight())
	if shorter {
		delete(s.waiting, k)
	}
	s.mu.Unlock()
	if shorter && s.disk != nil {
		_ = s.disk.Remove(k)
	}
}

// save schedules writing an object to the disk.
func (s *shelf) save(o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(o)
}

// queue schedules writing an object, and the mark that leads to it, and reports whether there
// was room. The caller holds mu.
func (s *shelf) queue(o *object) (room bool) {
	for _, o := range [...]*object{o.parent, o} {
		if o == nil || o.written.Swap(true) {
			continue
		}
		n := o.weight()
		room = len(s.writes) < maxWrites && (s.queued == 0 || s.queued+n <= s.most/2)
		if !room {
			o.written.Store(false)
			o.onSaved()
			s.dropped.Add(1)
			continue
		}
		s.waiting[hash([]byte(o.name))] = o
		s.queued += n
		s.writes <- o // there is room, because mu is held at every send
	}
	return room
}

// write writes a waiting object, unless it was removed or replaced meanwhile.
func (s *shelf) write(o *object) {
	defer o.onSaved()
	defer func() {
		s.mu.Lock()
		s.queued -= o.weight()
		s.mu.Unlock()
	}()
	k := hash([]byte(o.name))
	s.mu.Lock()
	waits := s.waiting[k] == o
	if waits {
		s.writing = k
	}
	s.mu.Unlock()
	if !waits {
		return
	}
	err := s.disk.Put(k, encode(o), o.body)
	if err != nil {
		o.written.Store(false)
		if !errors.Is(err, disk.ErrTooLarge) && !errors.Is(err, os.ErrClosed) {
			s.failure(err)
		}
	}
	s.mu.Lock()
	still := s.waiting[k] == o
	if still {
		delete(s.waiting, k)
		s.writing = Key{}
	}
	s.mu.Unlock()
	if !still {
		_ = s.disk.Remove(k)
		s.mu.Lock()
		s.writing = Key{}
		s.mu.Unlock()
	}
}

// onSaved says that writing no longer reads the object.
func (o *object) onSaved() {
	if o.saving.Swap(false) && !o.lent.Load() { // a request that found it while it waited may still refer to it
		o.blocks.free()
	}
}

// failure logs, at most once per interval, that the disk cannot be written to. Each failure is
// counted.
func (s *shelf) failure(err error) {
	now := time.Now()
	if last := s.warned.Load(); now.UnixNano()-last > int64(time.Minute) && s.warned.CompareAndSwap(last, now.UnixNano()) {
		s.log.Warn("an object was not written; shuultuur_cache_disk_failed_total counts failures", "error", err)
	}
}

// invalidate removes the objects stored under the URL of a name, for all edits of policies,
// and prevents storing responses to earlier requests.
func (s *shelf) invalidate(name []byte) {
	s.changes.add(name)
	s.remove(name)
	url, _, _ := bytes.Cut(name, []byte("\n"))
	names, complete := s.editions.of(url)
	for _, n := range names {
		s.remove(n)
	}
	if complete {
		return
	}
	if err := s.purge("url", string(url)); err != nil {
		s.log.Warn("an invalidation of the cache could not be saved and holds until the next start only", "error", err)
	}
}

// remove removes the object or mark with a name.
func (s *shelf) remove(name []byte) bool {
	k := hash(name)
	s.mu.Lock()
	_, ok := s.memory.Remove(k)
	delete(s.judged, k)
	delete(s.waiting, k)
	s.mu.Unlock()
	if s.disk != nil && s.disk.Has(k) {
		ok = s.disk.Remove(k) == nil || ok
	}
	return ok
}
