package list

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sort"
	"time"

	"shuultuur/lib/platform"
	"shuultuur/list/files"
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
//	pages     adblock rules that change pages
//	cosmetics adblock rules about the elements of pages
//	sets      the different sets of categories
//	names     the names of each category, aliases after the first
//	sources   the files, the number of the first line of each, and when it holds
//	report    the Report, as JSON
//	shared    the category that the settings name, when it is one of these, and
//	          what badfilter rules take out; files without it have neither
//
// A record takes 5 to 8 bytes and its key, filter and index 2.5 bytes more.
const (
	version         = 4
	compilerVersion = 2 // incremented when lists must be recompiled although they can still be read
	headerSize      = 512
	sectionAlign    = 64

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
	secPages
	secCosmetics
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

// decodeHeader verifies that the header is ours and undamaged and that every section is within
// the file.
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
		return h, errors.New("damaged list file: wrong checksum of the header")
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
		return h, errors.New("damaged list file: sections contradict each other")
	}
	return h, nil
}

// A File is a compiled list, mapped into memory. It is immutable and safe for concurrent use.
//
// The file on disk must not be written to or truncated while it is mapped: the system kills a
// process that reads from the missing part. Compile never does that; it replaces the file.
type File struct {
	image
	cleanup runtime.Cleanup
	overlay *File // nil if there is none

	table    entryTable
	networks networkTable
	exprs    expressionSet
	rules    Rules

	names [][]string // by category
	files []origin
	own   string   // category from the settings, "" if there is none
	bad   []string // rules that badfilter rules remove

	timed     bool // some files apply only at certain times
	longest   bool
	addresses bool
	excepts   bool
}

// An image is the contents of a list file and its sections.
type image struct {
	path    string
	data    []byte
	stamp   [32]byte
	section [sections]section
	damaged error
}

func (f *image) bytes(i int) []byte {
	s := f.section[i]
	return f.data[s.Offset : s.Offset+s.Size : s.Offset+s.Size]
}

func (f *image) verify(i int) error {
	if crc32.Checksum(f.bytes(i), castagnoli) != f.section[i].Sum {
		return fmt.Errorf("damaged list file: wrong checksum of section %d", i)
	}
	return nil
}

// Open maps the list file at path, and its overlay if there is one ([Amend]). It verifies
// header and tables, which takes less than a millisecond whatever the size. The rest (records,
// index, filter) is bounds-checked on use, and verified completely by [File.Verify].
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
	data, err := platform.Map(file, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	f, err := open(path, data)
	if err != nil {
		_ = platform.Unmap(data)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.cleanup = runtime.AddCleanup(f, func(data []byte) { _ = platform.Unmap(data) }, data)
	return f, nil
}

// open reads the tables of a list file. Nothing in f that outlives the mapping points into it,
// except the slices of sections.
func open(path string, data []byte) (*File, error) {
	h, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%s: damaged list file: delete it, and it is compiled again", path)
	f := &File{image: image{path: path, data: data, stamp: h.Stamp, section: h.Section, damaged: damaged}}
	f.table = entryTable{
		records: f.bytes(secRecords), index: f.bytes(secIndex), bloom: f.bytes(secBloom), more: f.bytes(secMore),
		count: int(h.Entries), seed: h.Seed, buckets: h.Buckets, blocks: h.Blocks, prefix: h.Flags&headerPrefix != 0,
		maxPath: int(min(h.MaxPath, maxKey)), posSize: 3, damaged: damaged,
	}
	if h.Flags&headerWide != 0 {
		f.table.posSize = 4
	}
	f.longest = h.Flags&headerLongest != 0
	f.excepts = h.Flags&headerExcepts != 0
	f.networks = f.bytes(secNetworks)
	f.addresses = h.Flags&headerAddress != 0 || len(f.networks) > 0
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
	return f, f.rules.open(f)
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
	return f.table.sets.read(f.bytes(secSets), len(f.names))
}

// A tableReader reads numbers and strings. After a mistake b is nil, and every later number is
// 0.
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

// Close unmaps f at once. There must be no lookups in progress; where that is not certain,
// drop the File instead: it is unmapped when it becomes unreachable.
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
	f.data, f.table, f.networks, f.rules = nil, entryTable{}, nil, Rules{}
	return platform.Unmap(data)
}

// Verify reads the whole file and verifies its checksums.
func (f *File) Verify() error {
	defer runtime.KeepAlive(f)
	for i := range sections {
		if err := f.verify(i); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	for index := f.table.index; len(index) >= 8; index = index[4:] {
		if binary.LittleEndian.Uint32(index[4:]) < binary.LittleEndian.Uint32(index) {
			return f.damaged
		}
	}
	return nil
}

// Report returns Compile's report on the list.
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

// Len returns the number of distinct entries, without the overlay.
func (f *File) Len() int { return f.table.count }

// HasAddresses reports whether any entry is an IP address or a network.
func (f *File) HasAddresses() bool { return f.addresses || f.overlay != nil && f.overlay.addresses }

// HasExceptions reports whether any entry may be an exception.
func (f *File) HasExceptions() bool { return f.excepts || f.overlay != nil }

// HasURLs reports whether any entry has a path.
func (f *File) HasURLs() bool {
	return f.table.maxPath > 0 || f.overlay != nil && f.overlay.table.maxPath > 0
}

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

// A Match is an entry that matches a query, in one of its categories. An entry in several
// gives as many Matches.
type Match struct {
	List      *File // the list of the entry
	Category  string
	Exception bool // the entry removes the host from the category
	Important bool // exceptions do not apply
	URL       bool // the entry matches more than the host

	record uint32 // offset of its record
	nth    uint16 // index of its line in the record
	kind   matchKind
	over   bool   // it is in the overlay
	size   uint16 // bytes of the entry, or of a rewriting rule's pattern

	rewrites bool // a rule with dnsrewrite
}

// A matchKind is the kind of record of a Match.
type matchKind uint8

const (
	entryKind matchKind = iota
	networkKind
	expressionKind
	ruleKind
)

// Lookup appends to dst every entry of f that matches q. For a host that is listed together
// with a parent domain, it appends both, the shorter name first; URLs follow. It allocates
// only a larger dst. The error is about a damaged file; the result has the matches up to
// then.
func (f *File) Lookup(q *Query, dst []Match) ([]Match, error) {
	defer runtime.KeepAlive(f)
	from := len(dst)
	dst, err := f.table.lookup(f, q, dst)
	if err == nil && q.ip && len(f.networks) > 0 {
		dst, err = f.networks.lookup(f, q.addr, dst)
		if err == nil && q.sent != q.addr { // a network may contain the NAT64 prefix itself
			dst, err = f.networks.lookup(f, q.sent, dst)
		}
	}
	if err == nil && f.overlay != nil {
		dst, err = f.amended(q, dst, from)
	}
	return dst, err
}

// Evidence returns the entry of m and its place: "example.com" in lists/adult/domains:12.
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

// Applies reports whether m applies at a time: always, except for entries of an e2guardian
// list with a #time line.
func (f *File) Applies(m Match, at time.Time) bool {
	if !f.timed || m.over {
		return true
	}
	defer runtime.KeepAlive(f)
	_, line, _ := f.written(m)
	from, _ := f.origin(line)
	for _, w := range from.when {
		if !w.Open(at) {
			return false
		}
	}
	return true
}

// written returns the text of m, and its line as counted through all files.
func (f *File) written(m Match) (text string, line uint64, ok bool) {
	switch m.kind {
	case networkKind:
		return f.networks.written(m)
	case expressionKind:
		return f.exprs.written(m)
	case ruleKind:
		return f.rules.written(m)
	}
	return f.table.written(m)
}

// origin returns the file with a line.
func (f *File) origin(line uint64) (origin, bool) {
	i := originOf(f.files, line)
	if i < 0 {
		return origin{}, false
	}
	return f.files[i], true
}

// originOf returns the index of the file with a line, -1 for none.
func originOf(files []origin, line uint64) int {
	return sort.Search(len(files), func(i int) bool { return uint64(files[i].first) > line }) - 1
}

// windows reads the output of append.
func (r *tableReader) windows() []files.Window {
	var all []files.Window
	for range min(r.number(files.MaxIncludeDepth+1), uint64(len(r.b))) {
		all = append(all, files.Window{Begin: uint16(r.number(1440)), End: uint16(r.number(1440)), Days: uint8(r.number(127))})
	}
	return all
}
