//go:build !small

package picture

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/picture"
)

const (
	maxListBytes = 4 << 30
	maxListLine  = 64 << 10
	minQuality   = 50 // of a PDQ hash
	usual        = 6  // distance of a dHash
)

// hashes are the hashes of one list, by type.
type hashes struct {
	file   string
	digest [32]byte // of the file
	locked bool
	sealed bool // the file is encrypted
	pdq    index
	dhash  index
	sha256 digests
	md5    digests
	others int // hashes of unsupported types
}

func (h *hashes) finding(name, what string, line uint32) filter.Finding {
	f := filter.Finding{Check: "picture", Category: Listed + name, Evidence: what + " in " + h.file + ":" + strconv.Itoa(int(line))}
	if h.locked {
		f.Evidence = "list " + name
	}
	return f
}

func readHashes(cfg HashList, key []byte) (*hashes, error) {
	switch cfg.Type {
	case "", "pdq", "dhash", "sha256", "md5":
	default:
		return nil, fmt.Errorf("type: %q is not pdq, dhash, sha256 or md5", cfg.Type)
	}
	if cfg.File == "" {
		return nil, errors.New("file: name the file of the list")
	}
	distance := cfg.Distance.Or(usual)
	if distance > 32 {
		return nil, fmt.Errorf("distance: pictures that differ in %d of 64 bits are not alike; use up to 10", distance)
	}
	f, err := os.Open(string(cfg.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := io.LimitedReader{R: f, N: maxListBytes + 1}
	plain, sealed, err := openLocked(&all, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	h := &hashes{file: string(cfg.File), locked: cfg.Locked || sealed, sealed: sealed, pdq: index{words: 4, within: picture.Near}, dhash: index{words: 1, within: distance}}
	sum := sha256.New()
	r := bufio.NewReaderSize(io.TeeReader(plain, sum), maxListLine)
	if err := h.read(r, cfg.Type); err != nil {
		return nil, err
	}
	if all.N <= 0 {
		return nil, fmt.Errorf("%s is larger than 4 GiB", h.file)
	}
	sum.Sum(h.digest[:0])
	h.pdq.build()
	h.dhash.build()
	h.sha256.build()
	h.md5.build()
	return h, nil
}

// read reads a list in the format that its first bytes show.
func (h *hashes) read(r *bufio.Reader, typ string) error {
	if b, _ := r.Peek(3); string(b) == "\ufeff" {
		_, _ = r.Discard(3)
	}
	first, _ := r.Peek(maxListLine) // as many bytes as there are
	first, _, _ = bytes.Cut(first, []byte("\n"))
	plain, _, _ := bytes.Cut(first, []byte("#"))
	sep := bytes.IndexAny(plain, ",;\t") // spreadsheets write any of these
	table := sep > 0 && !isDigits(string(bytes.Trim(first[:sep], " \"")))
	switch {
	case bytes.HasPrefix(first, []byte("{")), bytes.HasPrefix(first, []byte("[")):
		return h.readJSON(r, typ, first[0] == '[')
	case table:
		return h.readCSV(r, rune(first[sep]), typ)
	}
	return h.readText(r, typ)
}

func isDigits(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && s != ""
}

// readText reads a hash at the beginning of each line.
func (h *hashes) readText(r *bufio.Reader, typ string) error {
	for n := uint32(1); ; n++ {
		line, err := r.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			return fmt.Errorf("%s:%d: the line is longer than 64 KiB", h.file, n)
		case err != nil && err != io.EOF:
			return fmt.Errorf("%s:%d: %w", h.file, n, err)
		}
		text, _, _ := strings.Cut(string(line), "#")
		if i := strings.IndexAny(text, ",;\t"); i >= 0 {
			text = text[:i]
		}
		if text = strings.TrimSpace(text); text != "" {
			if err := h.add(text, typ, n); err != nil {
				return h.at(n, err)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// at adds file and line to an error. It hides the text of a locked list.
func (h *hashes) at(line uint32, err error) error {
	if h.locked {
		return fmt.Errorf("%s:%d: not a hash of a known type; the text is not shown, because the list is locked", h.file, line)
	}
	return fmt.Errorf("%s:%d: %w", h.file, line, err)
}

// readCSV reads a table with column names. The hash is in the column "hash", "hash_value" or
// "indicator", or in one named after the type; its type may be in "type", "hash_type" or
// "signal_type".
func (h *hashes) readCSV(in io.Reader, sep rune, typ string) error {
	r := csv.NewReader(in)
	r.Comma = sep
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s:1: %w", h.file, err)
	}
	hash, kind := -1, -1
	for i, name := range head {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "hash", "hash_value", "indicator", "signal", "value":
			hash = i
		case "pdq", "pdq_hash", "sha256", "md5", "dhash":
			hash = i
			if typ == "" {
				typ = kindOf(name)
			}
		case "type", "hash_type", "signal_type":
			kind = i
		}
	}
	if hash < 0 {
		return fmt.Errorf("%s:1: no column is called hash, hash_value or indicator", h.file)
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.file, err)
		}
		line, _ := r.FieldPos(0)
		if hash >= len(row) {
			return fmt.Errorf("%s:%d: the column of hashes is missing", h.file, line)
		}
		t := typ
		if kind >= 0 && kind < len(row) {
			t = kindOf(row[kind])
		}
		if err := h.addTyped(row[hash], t, uint32(line)); err != nil {
			return h.at(uint32(line), err)
		}
	}
}

// readJSON reads objects with "indicator" and "type", as in replies of the ThreatExchange API:
// in such a reply, in an array, or one per line.
func (h *hashes) readJSON(in io.Reader, typ string, array bool) error {
	type row struct {
		Indicator string `json:"indicator"`
		Hash      string `json:"hash"`
		Type      string `json:"type"`
	}
	n := uint32(0) // counts hashes, because JSON has no lines
	add := func(r *row) error {
		n++
		t := typ
		if r.Type != "" {
			t = kindOf(r.Type)
		}
		if err := h.addTyped(r.Indicator+r.Hash, t, n); err != nil {
			return h.at(n, err)
		}
		return nil
	}
	d := json.NewDecoder(in)
	if array {
		_, _ = d.Token() // peeked at before
	}
	for {
		var v struct {
			row
			Data []row `json:"data"`
		}
		if array && !d.More() {
			return nil
		}
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return fmt.Errorf("%s: after %d hashes: write objects with a text for indicator and type, not a %s", h.file, n, wrong.Value)
		} else if err != nil {
			return fmt.Errorf("%s: after %d hashes: %w", h.file, n, err)
		}
		if v.Data == nil {
			v.Data = []row{v.row}
		}
		for i := range v.Data {
			if err := add(&v.Data[i]); err != nil {
				return err
			}
		}
	}
}

// kindOf returns the hash type for a name in a list, such as HASH_PDQ or SHA-256.
func kindOf(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(name, "hash_"), "_hash"), "-", "")
}

// addTyped adds a hash from a table, which may also contain hashes of unsupported types.
func (h *hashes) addTyped(s, typ string, line uint32) error {
	switch typ {
	case "", "pdq", "dhash", "sha256", "md5":
		return h.add(strings.TrimSpace(s), typ, line)
	}
	h.others++
	return nil
}

func (h *hashes) add(s, typ string, line uint32) error {
	if typ == "" {
		typ = map[int]string{64: "pdq", 32: "md5", 16: "dhash"}[len(s)]
	}
	b, err := hex.DecodeString(s)
	want := map[string]int{"pdq": 32, "sha256": 32, "md5": 16, "dhash": 8}[typ]
	if want == 0 || err != nil || len(b) != want {
		return fmt.Errorf("%q is not a hash of type %s: write hexadecimal digits, 64 for pdq and sha256, 32 for md5, 16 for dhash", s, cmp.Or(typ, "pdq, md5 or dhash"))
	}
	x, d := &h.pdq, &h.sha256
	switch typ {
	case "sha256", "md5":
		if typ == "md5" {
			d = &h.md5
		}
		if len(*d) == maxIndexed {
			return fmt.Errorf("more than %d hashes of type %s; split the list in two", maxIndexed, typ)
		}
		*d = append(*d, digest{[32]byte(append(b, make([]byte, 32-len(b))...)), line})
		return nil
	case "dhash":
		x = &h.dhash
	}
	if x.len() == maxIndexed {
		return fmt.Errorf("more than %d hashes of type %s; split the list in two", maxIndexed, typ)
	}
	for ; len(b) > 0; b = b[:len(b)-8] { // the last word is the lowest
		x.all = append(x.all, binary.BigEndian.Uint64(b[len(b)-8:]))
	}
	x.lines = append(x.lines, line)
	return nil
}

// digests are those of whole files, in order.
type digests []digest

type digest struct {
	sum  [32]byte // an MD5 has zeros at the end
	line uint32
}

func (d digests) build() {
	sort.Slice(d, func(i, j int) bool { return bytes.Compare(d[i].sum[:], d[j].sum[:]) < 0 }) // slices.SortFunc would be compiled for this type
}

// find returns the line of a digest.
func (d digests) find(sum []byte) (line uint32, ok bool) {
	var full [32]byte
	copy(full[:], sum)
	i, ok := slices.BinarySearchFunc(d, full, func(a digest, sum [32]byte) int { return bytes.Compare(a.sum[:], sum[:]) })
	if !ok {
		return 0, false
	}
	return d[i].line, true
}
