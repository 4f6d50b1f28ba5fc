package list

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sort"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"shuultuur/list/adblock"
)

// The form of a list file. All numbers are little endian; sections begin at
// multiples of 64 bytes.
//
//	header    512 bytes, with the place and CRC-32C of each section
//	records   for each entry: length of the key (uvarint), number of its set of
//	          categories and four flags (uvarint), its line (3 bytes, or 4 where
//	          there are that many; with more than one category, where the lines
//	          begin in "more"), the key. In the order of their hashes
//	index     for each bucket of about four records where it begins (4 bytes),
//	          and the end
//	bloom     the filter in front of it all
//	more      lines of the entries that are in several categories, 4 bytes each
//	networks  networks in order, each with the one around it
//	exprs     regular expressions, as text
//	rules     adblock rules that are more than a host
//	sets      the different sets of categories
//	names     the names of each category, aliases after the first
//	sources   the files, the number of the first line of each, and when it holds
//	report    the Report, as JSON
//	shared    the category that the settings name, when it is one of these, and
//	          what badfilter rules take out; files without it have neither
//
// A record takes 5 to 8 bytes and its key, filter and index 2.5 bytes more.
const (
	version      = 3
	made         = 1 // goes up when lists are to be made anew that could still be read
	headerSize   = 512
	sectionAlign = 64

	headerPrefix  = 1  // Flags: URL entries match as Prefix says
	headerWide    = 2  // Flags: lines take 4 bytes, not 3
	headerLongest = 4  // Flags: the longest entry decides between a category and its exception
	headerAddress = 8  // Flags: an entry is an IP address
	headerExcepts = 16 // Flags: an entry is an exception
)

var (
	magic      = [8]byte{'S', 'H', 'U', 'U', 'L', 'I', 'S', 'T'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

const (
	secRecords = iota
	secIndex
	secBloom
	secMore
	secNetworks
	secExpressions
	secRules
	secSets
	secNames
	secSources
	secReport
	secShared
	sections
)

type section struct {
	Offset, Size uint64
	Sum          uint32 // CRC-32C
	_            uint32
}

type header struct {
	Magic   [8]byte
	Version uint32
	Sum     uint32 // CRC-32C of the header with this field 0
	Size    uint64 // of the file
	Seed    uint64
	Entries uint64
	Buckets uint64
	Blocks  uint64
	Flags   uint32
	MaxPath uint32 // bytes of the longest path
	Stamp   [32]byte
	Section [sections]section
}

func (h header) encode() []byte {
	h.Sum = 0
	buf := make([]byte, headerSize)
	binary.Encode(buf, binary.LittleEndian, &h)
	h.Sum = crc32.Checksum(buf, castagnoli)
	binary.Encode(buf, binary.LittleEndian, &h)
	return buf
}

// decodeHeader checks that the header is ours and undamaged and that every
// section lies in the file.
func decodeHeader(data []byte) (h header, err error) {
	if len(data) < headerSize {
		return h, errors.New("not a list file: too short")
	}
	if _, err := binary.Decode(data[:headerSize], binary.LittleEndian, &h); err != nil {
		return h, err
	}
	switch {
	case h.Magic != magic:
		return h, errors.New("not a list file")
	case h.Version != version:
		return h, fmt.Errorf("list file of version %d, this program reads version %d", h.Version, version)
	case !bytes.Equal(h.encode(), data[:headerSize]):
		return h, errors.New("damaged list file: header does not fit its checksum")
	case h.Size != uint64(len(data)):
		return h, fmt.Errorf("damaged list file: %d bytes, should be %d", len(data), h.Size)
	}
	for i, s := range h.Section {
		if s.Offset > h.Size || s.Size > h.Size-s.Offset {
			return h, fmt.Errorf("damaged list file: section %d lies outside", i)
		}
	}
	if h.Buckets == 0 || h.Buckets > h.Size || h.Section[secIndex].Size != (h.Buckets+1)*4 ||
		h.Blocks == 0 || h.Blocks > h.Size || h.Section[secBloom].Size != h.Blocks*64 ||
		h.Section[secMore].Size%4 != 0 {
		return h, errors.New("damaged list file: sections do not fit together")
	}
	return h, nil
}

// A File is a compiled list, mapped into memory. It never changes and serves
// any number of goroutines.
//
// The file on disk must not be written to or cut short while it is mapped:
// the system ends the process that reads what is no longer there. Compile
// never does that, it puts a new file in the old one's place.
type File struct {
	path    string
	data    []byte
	cleanup runtime.Cleanup

	stamp   [32]byte
	seed    uint64
	entries int
	buckets uint64
	blocks  uint64
	prefix  bool
	posSize int // bytes of a record's line
	maxPath int
	section [sections]section

	records, index, bloom, more []byte

	sets    []byte // ends of each set, then ids
	nsets   uint32
	ids     []byte
	names   [][]string // by category
	files   []origin
	timed   bool // some of files hold at certain times only
	damaged error

	networks []byte
	exprs    expressionSet
	rules    *adblock.Engine // nil when there are none

	own string   // category that the settings name, "" when it has none
	bad []string // what badfilter rules take out

	longest   bool
	addresses bool
	excepts   bool
	overlay   *File // nil when there is none
}

// Open maps the list file at path, and the overlay beside it where there is
// one ([Amend]). Header and tables are checked, which takes
// less than a millisecond whatever the size; what is not (records, index,
// filter) is bounds-checked when it is used, and wholly by [File.Verify].
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if err != nil {
		return nil, err
	}
	switch f.overlay, err = openOne(path + overlaySuffix); {
	case errors.Is(err, fs.ErrNotExist):
		f.overlay = nil
	case err != nil:
		f.Close()
		return nil, err
	}
	return f, nil
}

func openOne(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < headerSize || info.Size() > 1<<36 || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a list file", path)
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	f, err := open(path, data)
	if err != nil {
		unix.Munmap(data)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.cleanup = runtime.AddCleanup(f, func(data []byte) { unix.Munmap(data) }, data)
	return f, nil
}

// open reads the tables of a list file. Nothing in f that outlives the
// mapping points into it but the slices of sections.
func open(path string, data []byte) (*File, error) {
	h, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	f := &File{
		path: path, data: data, stamp: h.Stamp, seed: h.Seed, entries: int(h.Entries),
		buckets: h.Buckets, blocks: h.Blocks, prefix: h.Flags&headerPrefix != 0,
		maxPath: int(min(h.MaxPath, maxKey)), section: h.Section, posSize: 3,
		damaged: fmt.Errorf("%s: damaged list file: remove it to have it made anew", path),
	}
	if h.Flags&headerWide != 0 {
		f.posSize = 4
	}
	f.longest = h.Flags&headerLongest != 0
	f.excepts = h.Flags&headerExcepts != 0
	f.addresses = h.Flags&headerAddress != 0 || len(f.bytes(secNetworks)) > 0
	f.records, f.index = f.bytes(secRecords), f.bytes(secIndex)
	f.bloom, f.more = f.bytes(secBloom), f.bytes(secMore)
	f.networks = f.bytes(secNetworks)
	for i := secSets; i < sections; i++ {
		if i == secReport {
			continue
		}
		if err := f.verify(i); err != nil {
			return nil, err
		}
	}
	if err := f.readTables(); err != nil {
		return nil, err
	}
	if data := f.bytes(secRules); len(data) > 0 {
		if f.rules, err = adblock.Open(data); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *File) bytes(i int) []byte {
	s := f.section[i]
	return f.data[s.Offset : s.Offset+s.Size : s.Offset+s.Size]
}

func (f *File) verify(i int) error {
	if crc32.Checksum(f.bytes(i), castagnoli) != f.section[i].Sum {
		return fmt.Errorf("damaged list file: section %d does not fit its checksum", i)
	}
	return nil
}

var errTable = errors.New("damaged list file: a table is cut short")

func (f *File) readTables() error {
	r := tableReader{f.bytes(secNames)}
	f.names = make([][]string, 0, min(r.number(1<<16), uint64(len(r.b))))
	for range cap(f.names) {
		names := make([]string, min(r.number(1<<16), uint64(len(r.b))))
		for i := range names {
			names[i] = r.string()
		}
		f.names = append(f.names, names)
	}
	if r.b == nil {
		return errTable
	}
	if data := f.bytes(secShared); len(data) > 0 {
		r = tableReader{data}
		f.own = r.string()
		f.bad = make([]string, min(r.number(1<<32), uint64(len(r.b))))
		for i := range f.bad {
			f.bad[i] = r.string()
		}
		if r.b == nil {
			return errTable
		}
	}
	r = tableReader{f.bytes(secSources)}
	f.files = make([]origin, min(r.number(1<<32), uint64(len(r.b))))
	for i := range f.files {
		f.files[i] = origin{first: uint32(r.number(1 << 32)), path: r.string()}
		f.files[i].when = r.windows()
		f.timed = f.timed || f.files[i].when != nil
	}
	if r.b == nil {
		return errTable
	}
	s := f.bytes(secSets)
	if len(s) < 4 {
		return errTable
	}
	f.nsets = binary.LittleEndian.Uint32(s)
	if uint64(len(s)-4) < 4*uint64(f.nsets) {
		return errTable
	}
	f.sets, f.ids = s[4:4+4*f.nsets], s[4+4*f.nsets:]
	from := uint32(0)
	for i := range f.nsets {
		end := binary.LittleEndian.Uint32(f.sets[4*i:])
		if end < from || uint64(end)*2 > uint64(len(f.ids)) {
			return errTable
		}
		from = end
	}
	for i := 0; i+1 < len(f.ids); i += 2 {
		if int(binary.LittleEndian.Uint16(f.ids[i:])) >= len(f.names) {
			return errTable
		}
	}
	return nil
}

// A tableReader reads numbers and strings. What is wrong leaves b nil, and
// every later number is 0.
type tableReader struct{ b []byte }

func (r *tableReader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.b = nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *tableReader) string() string {
	n := r.number(1 << 20)
	if n > uint64(len(r.b)) {
		r.b = nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// Close unmaps f at once. Nobody may be looking anything up in it; where that
// is not certain, drop the File instead: it is unmapped when nothing refers to
// it any more.
func (f *File) Close() error {
	if f.data == nil {
		return nil
	}
	if f.overlay != nil {
		f.overlay.Close()
		f.overlay = nil
	}
	f.cleanup.Stop()
	data := f.data
	f.data, f.records, f.index, f.bloom, f.more, f.sets, f.ids, f.networks = nil, nil, nil, nil, nil, nil, nil, nil
	f.entries, f.nsets, f.buckets, f.blocks, f.rules = 0, 0, 0, 0, nil
	return unix.Munmap(data)
}

// Verify reads the whole file and compares it with its checksums.
func (f *File) Verify() error {
	defer runtime.KeepAlive(f)
	for i := range sections {
		if err := f.verify(i); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	for i := 4; i+4 <= len(f.index); i += 4 {
		if binary.LittleEndian.Uint32(f.index[i:]) < binary.LittleEndian.Uint32(f.index[i-4:]) {
			return f.damaged
		}
	}
	return nil
}

// Report returns what Compile had to say about the list.
func (f *File) Report() (Report, error) {
	defer runtime.KeepAlive(f)
	var r Report
	if err := f.verify(secReport); err != nil {
		return r, fmt.Errorf("%s: %w", f.path, err)
	}
	if err := json.Unmarshal(f.bytes(secReport), &r); err != nil {
		return r, fmt.Errorf("%s: reading the report: %w", f.path, err)
	}
	return r, nil
}

// Len returns the number of different entries, without the overlay.
func (f *File) Len() int { return f.entries }

// HasAddresses says whether any entry is an IP address or a network.
func (f *File) HasAddresses() bool { return f.addresses || f.overlay != nil && f.overlay.addresses }

// HasExceptions says whether any entry may be an exception.
func (f *File) HasExceptions() bool { return f.excepts || f.overlay != nil }

// HasURLs says whether any entry has a path.
func (f *File) HasURLs() bool { return f.maxPath > 0 || f.overlay != nil && f.overlay.maxPath > 0 }

// Categories returns the names of all categories, sorted.
func (f *File) Categories() []string {
	var all []string
	for _, names := range f.names {
		all = append(all, names...)
	}
	if f.overlay != nil {
		all = append(all, slices.DeleteFunc(f.overlay.Categories(), isRemoval)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A Match is an entry that covers what was asked for, in one of its
// categories. An entry that is in several gives as many Matches.
type Match struct {
	List      *File // that has it
	Category  string
	Exception bool // the entry takes the host out of the category
	Important bool // no exception does
	URL       bool // the entry is about more than the host

	record uint32 // where its record begins
	nth    uint16 // which of the record's lines
	kind   matchKind
	over   bool   // it is in the overlay
	size   uint16 // bytes of the entry, or of a rewriting rule's pattern

	rewrites bool // a rule with dnsrewrite
}

// A matchKind says what the record of a Match is.
type matchKind uint8

const (
	entryKind matchKind = iota
	networkKind
	expressionKind
	ruleKind
)

// Lookup appends to dst every entry of f that covers what q asks for: for a
// host that is listed together with a parent domain, both, the shorter name
// first; after them the URLs. It allocates nothing but a larger dst. The error
// is about a damaged file; what was found until then is in the result.
func (f *File) Lookup(q *Query, dst []Match) ([]Match, error) {
	from := len(dst)
	dst, err := f.lookup(q, dst)
	if err == nil && f.overlay != nil {
		dst, err = f.amended(q, dst, from)
	}
	return dst, err
}

func (f *File) lookup(q *Query, dst []Match) ([]Match, error) {
	if f.blocks == 0 {
		return dst, nil // closed
	}
	if q.seed != f.seed {
		q.hash(f.seed)
	}
	var err error
	for i := range q.n {
		if f.maybe(q.sums[i]) {
			if dst, err = f.bucket(q.sums[i], q.suffix(i), nil, i == q.n-1, dst); err != nil {
				return dst, err
			}
		}
	}
	if f.maxPath > 0 && len(q.path) > 0 {
		if dst, err = f.lookupURL(q, dst); err != nil {
			return dst, err
		}
	}
	if q.ip && len(f.networks) > 0 {
		dst, err = f.lookupAddr(q.addr, dst)
	}
	runtime.KeepAlive(f)
	return dst, err
}

func (f *File) lookupURL(q *Query, dst []Match) ([]Match, error) {
	first := 0
	if f.prefix { // the host itself, and what is left without www
		first = max(0, q.n-1)
		if rest, ok := withoutWWW(q.host); ok && q.n > 1 && len(rest) == int(q.sizes[q.n-2]) {
			first = q.n - 2
		}
	}
	var err error
	for i := first; i < q.n; i++ {
		if !f.maybe(gate(q.sums[i])) {
			continue
		}
		if f.prefix {
			dst, err = f.prefixes(q.sums[i], q.suffix(i), q.path, dst)
		} else {
			dst, err = f.boundaries(q.sums[i], q.suffix(i), q.path, dst)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// boundaries looks up every prefix of path that ends at a boundary. A path is
// at most one byte longer than any entry's, so that its own end is known to be
// one when it comes to that.
func (f *File) boundaries(h uint64, host string, path []byte, dst []Match) ([]Match, error) {
	var err error
	from := 0
	for e := 1; e <= min(len(path), f.maxPath); e++ {
		if e < len(path) && !boundary(path[e]) {
			continue
		}
		h = xxh3.HashSeed(path[from:e], h)
		from = e
		if f.maybe(h) {
			if dst, err = f.bucket(h, host, path[:e], true, dst); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// prefixes looks up every prefix of path.
func (f *File) prefixes(h uint64, host string, path []byte, dst []Match) ([]Match, error) {
	var err error
	from := 0
	for e := 1; e <= min(len(path), f.maxPath); e++ {
		if e-from > prefixPiece {
			h = xxh3.HashSeed(path[from:from+prefixPiece], h)
			from += prefixPiece
		}
		if sum := xxh3.HashSeed(path[from:e], h); f.maybe(sum) {
			if dst, err = f.bucket(sum, host, path[:e], true, dst); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// maybe asks the filter: false means there is no entry with this hash.
func (f *File) maybe(h uint64) bool {
	at, _ := bits.Mul64(h, f.blocks)
	b := f.bloom[at*64:]
	if len(b) < 64 {
		return false
	}
	b = b[:64]
	g := bloomMix(h)
	// All six at once: a branch for each would be guessed wrong two times in
	// five, which costs more than the bits.
	hit := b[g>>58&63] >> (g >> 55 & 7) &
		(b[g>>49&63] >> (g >> 46 & 7)) &
		(b[g>>40&63] >> (g >> 37 & 7)) &
		(b[g>>31&63] >> (g >> 28 & 7)) &
		(b[g>>22&63] >> (g >> 19 & 7)) &
		(b[g>>13&63] >> (g >> 10 & 7))
	return hit&1 != 0
}

// bucket appends the entries with key host+path out of the bucket of hash h.
// whole says that host is all of what was asked for, not only a parent domain.
// Every offset is checked: the file is not ours to trust.
func (f *File) bucket(h uint64, host string, path []byte, whole bool, dst []Match) ([]Match, error) {
	at, _ := bits.Mul64(h, f.buckets)
	if uint64(len(f.index)) < at*4+8 {
		return dst, f.damaged
	}
	from := binary.LittleEndian.Uint32(f.index[at*4:])
	to := binary.LittleEndian.Uint32(f.index[at*4+4:])
	if from > to || uint64(to) > uint64(len(f.records)) {
		return dst, f.damaged
	}
	for b := f.records[from:to]; len(b) > 0; {
		r, n := f.record(b)
		if n == 0 {
			return dst, f.damaged
		}
		if len(r.key) == len(host)+len(path) &&
			string(r.key[:len(host)]) == host && string(r.key[len(host):]) == string(path) &&
			r.set&covers(whole) == 0 {
			var err error
			if dst, err = f.matches(r, to-uint32(len(b)), path != nil, dst); err != nil {
				return dst, err
			}
		}
		b = b[n:]
	}
	return dst, nil
}

// covers returns the flag that keeps an entry from covering a host that is it
// as a whole, or a subdomain of it.
func covers(whole bool) uint64 {
	if whole {
		return flagBelow
	}
	return flagExact
}

// matches appends one Match for each name of each category of r.
func (f *File) matches(r record, at uint32, url bool, dst []Match) ([]Match, error) {
	from, to, ok := f.set(r.set >> flagBits)
	if !ok {
		return dst, f.damaged
	}
	for i := from; i < to; i++ {
		for _, name := range f.names[binary.LittleEndian.Uint16(f.ids[2*i:])] {
			dst = append(dst, Match{
				List: f, Category: name, Exception: r.set&flagException != 0, Important: r.set&flagImportant != 0,
				URL: url, record: at, nth: uint16(i - from), size: uint16(len(r.key)),
			})
		}
	}
	return dst, nil
}

// set returns where the categories of a set are in f.ids. readTables has
// checked them.
func (f *File) set(id uint64) (from, to uint32, ok bool) {
	if id >= uint64(f.nsets) {
		return 0, 0, false
	}
	if id > 0 {
		from = binary.LittleEndian.Uint32(f.sets[4*id-4:])
	}
	return from, binary.LittleEndian.Uint32(f.sets[4*id:]), true
}

// categoryIDs returns the categories from one place in f.ids to another.
func (f *File) categoryIDs(from, to uint32) []int {
	ids := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		ids = append(ids, int(binary.LittleEndian.Uint16(f.ids[2*i:])))
	}
	return ids
}

type record struct {
	key []byte
	set uint64 // and flags
	pos uint32
}

// record reads the record at the beginning of b and returns the bytes it
// takes, 0 when it is damaged.
func (f *File) record(b []byte) (r record, n int) {
	size, i := uint64(b[0]), 1
	if size >= 0x80 {
		size, i = binary.Uvarint(b)
		if i <= 0 {
			return r, 0
		}
	}
	set, j := binary.Uvarint(b[i:])
	if j <= 0 {
		return r, 0
	}
	i += j
	if size > maxKey || len(b)-i < f.posSize+int(size) {
		return r, 0
	}
	r.set, r.pos = set, uint32(b[i])|uint32(b[i+1])<<8|uint32(b[i+2])<<16
	if f.posSize == 4 {
		r.pos |= uint32(b[i+3]) << 24
	}
	i += f.posSize
	r.key = b[i : i+int(size)]
	return r, i + int(size)
}

// Evidence says which entry m is and where it is written:
// "example.com" in lists/adult/domains:12.
func (f *File) Evidence(m Match) string {
	if m.over && f.overlay != nil {
		m.over = false
		return f.overlay.Evidence(m)
	}
	defer runtime.KeepAlive(f)
	text, line, ok := f.written(m)
	if text == "" {
		return f.path
	}
	from, found := f.origin(line)
	if !ok || !found {
		return fmt.Sprintf("%q in %s", text, f.path)
	}
	return fmt.Sprintf("%q in %s:%d", text, from.path, line-uint64(from.first)+1)
}

// Applies says whether m holds at a time: always, but for what was read from
// an e2guardian list with a #time line.
func (f *File) Applies(m Match, at time.Time) bool {
	if !f.timed || m.over {
		return true
	}
	defer runtime.KeepAlive(f)
	_, line, _ := f.written(m)
	from, _ := f.origin(line)
	for _, w := range from.when {
		if !w.open(at) {
			return false
		}
	}
	return true
}

// written returns the text of what m stands for, and its line as counted
// through all files.
func (f *File) written(m Match) (text string, line uint64, ok bool) {
	switch m.kind {
	case networkKind:
		return f.writtenNetwork(m)
	case expressionKind:
		return f.exprs.written(m)
	case ruleKind:
		return f.writtenRule(m)
	}
	if uint64(m.record) >= uint64(len(f.records)) {
		return "", 0, false
	}
	r, n := f.record(f.records[m.record:])
	from, to, ok := f.set(r.set >> flagBits)
	if n == 0 || !ok {
		return "", 0, false
	}
	line = uint64(r.pos)
	if to-from > 1 {
		i := (line + uint64(m.nth)) * 4
		if i+4 > uint64(len(f.more)) {
			return string(r.key), 0, false
		}
		line = uint64(binary.LittleEndian.Uint32(f.more[i:]))
	}
	return string(r.key), line, true
}

// origin returns the file that has a line.
func (f *File) origin(line uint64) (origin, bool) {
	i := originOf(f.files, line)
	if i < 0 {
		return origin{}, false
	}
	return f.files[i], true
}

// originOf returns which of files has a line, -1 for none.
func originOf(files []origin, line uint64) int {
	return sort.Search(len(files), func(i int) bool { return uint64(files[i].first) > line }) - 1
}
