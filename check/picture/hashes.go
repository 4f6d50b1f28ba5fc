package picture

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"shuultuur/content/picture"
	"shuultuur/filter"
	"shuultuur/setting"
)

// A HashList is a file of hashes: text with one on each line ("#" begins a
// comment), or CSV with a heading, such as exports of ThreatExchange.
type HashList struct {
	File setting.File `yaml:"file"`
	// Type is the type of the hashes in a text: pdq, dhash, sha256 or md5. Left
	// out, 64 digits are PDQ, 32 MD5 and 16 dHash.
	Type string `yaml:"type"`
	// Distance is up to how many bits a dHash may differ.
	Distance setting.Count `yaml:"distance"`
	// Locked keeps the list's hashes out of evidence: only its name is shown.
	Locked bool `yaml:"locked"`
}

const (
	maxListBytes = 1 << 30
	maxListed    = 20_000_000
	minQuality   = 50 // of a PDQ hash
	usual        = 6  // distance of a dHash
)

// hashes are the lists of one file by type.
type hashes struct {
	file     string
	digest   [32]byte // of the file
	locked   bool
	distance int
	pdq      pdqIndex
	dhash    dhashIndex
	sha256   map[string]uint32 // digits to line
	md5      map[string]uint32
}

func (h *hashes) finding(name, what string, line uint32) filter.Finding {
	f := filter.Finding{Check: "picture", Category: Listed + name, Evidence: what + " in " + h.file + ":" + strconv.Itoa(int(line))}
	if h.locked {
		f.Evidence = "list " + name
	}
	return f
}

func readHashes(cfg HashList) (*hashes, error) {
	switch cfg.Type {
	case "", "pdq", "dhash", "sha256", "md5":
	default:
		return nil, fmt.Errorf("type: %q is not pdq, dhash, sha256 or md5", cfg.Type)
	}
	if cfg.File == "" {
		return nil, errors.New("file: name the file of the list")
	}
	f, err := os.Open(string(cfg.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", cfg.File, err)
	}
	if len(data) > maxListBytes {
		return nil, fmt.Errorf("%s is larger than 1 GiB", cfg.File)
	}
	h := &hashes{file: string(cfg.File), digest: sha256.Sum256(data), locked: cfg.Locked, distance: cfg.Distance.Or(usual), sha256: map[string]uint32{}, md5: map[string]uint32{}}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if bytes.ContainsRune(first, ',') && !isDigits(string(bytes.TrimSpace(bytes.SplitN(first, []byte(","), 2)[0]))) {
		err = h.readCSV(data, cfg.Type)
	} else {
		err = h.readText(data, cfg.Type)
	}
	if err != nil {
		return nil, err
	}
	h.pdq.build()
	return h, nil
}

func isDigits(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && s != ""
}

func (h *hashes) readText(data []byte, typ string) error {
	n := uint32(0)
	for line := range bytes.Lines(data) {
		n++
		text, _, _ := strings.Cut(string(line), "#")
		text, _, _ = strings.Cut(strings.TrimSpace(text), ",")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if err := h.add(text, typ, n); err != nil {
			return fmt.Errorf("%s:%d: %w", h.file, n, err)
		}
	}
	return nil
}

// readCSV reads a table whose heading names the column of hashes ("hash",
// "hash_value", "indicator" or the type) and perhaps that of types ("type",
// "hash_type", "signal_type").
func (h *hashes) readCSV(data []byte, typ string) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s:1: %w", h.file, err)
	}
	hash, kind := -1, -1
	for i, name := range head {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "hash", "hash_value", "indicator", "signal", "value":
			hash = i
		case "pdq", "pdq_hash", "sha256", "md5", "dhash":
			hash = i
			if typ == "" {
				typ = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), "_hash")
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
		n, _ := r.FieldPos(0)
		if err != nil {
			return fmt.Errorf("%s: %w", h.file, err)
		}
		if hash >= len(row) {
			return fmt.Errorf("%s:%d: the column of hashes is missing", h.file, n)
		}
		t := typ
		if kind >= 0 && kind < len(row) {
			t = strings.ToLower(strings.TrimPrefix(strings.ToLower(row[kind]), "hash_"))
		}
		if err := h.add(strings.TrimSpace(row[hash]), t, uint32(n)); err != nil {
			return fmt.Errorf("%s:%d: %w", h.file, n, err)
		}
	}
}

func (h *hashes) add(s, typ string, line uint32) error {
	s = strings.ToLower(s)
	if typ == "" {
		typ = map[int]string{64: "pdq", 32: "md5", 16: "dhash"}[len(s)]
	}
	if len(h.pdq.all)+len(h.dhash.all)+len(h.sha256)+len(h.md5) >= maxListed {
		return fmt.Errorf("more than %d hashes", maxListed)
	}
	want := map[string]int{"pdq": 64, "sha256": 64, "md5": 32, "dhash": 16}[typ]
	if want == 0 || len(s) != want || !isDigits(s) {
		return fmt.Errorf("%q is not a hash of type %s: write hexadecimal digits, 64 for pdq and sha256, 32 for md5, 16 for dhash", s, orAny(typ))
	}
	switch typ {
	case "pdq":
		p, err := picture.ParseHash(s)
		if err != nil {
			return err
		}
		h.pdq.all = append(h.pdq.all, p)
		h.pdq.lines = append(h.pdq.lines, line)
	case "sha256":
		h.sha256[s] = line
	case "md5":
		h.md5[s] = line
	case "dhash":
		n, err := strconv.ParseUint(s, 16, 64)
		if err != nil {
			return err
		}
		h.dhash.all = append(h.dhash.all, n)
		h.dhash.lines = append(h.dhash.lines, line)
	}
	return nil
}

func orAny(typ string) string {
	if typ == "" {
		return "pdq, md5 or dhash"
	}
	return typ
}

// A dhashIndex is searched from end to end: 64 bits are compared in a
// nanosecond.
type dhashIndex struct {
	all   []uint64
	lines []uint32
}

func (x *dhashIndex) nearest(h uint64, most int) (at, distance int, ok bool) {
	distance = most + 1
	for i, o := range x.all {
		if d := bits.OnesCount64(h ^ o); d < distance {
			at, distance = i, d
		}
	}
	return at, distance, distance <= most
}

// A pdqIndex finds hashes within picture.Near bits by multi-index hashing
// (Norouzi et al. 2012): of 16 bands of 16 bits, two such hashes differ in one
// band by at most one bit.
type pdqIndex struct {
	all   []picture.Hash
	lines []uint32
	from  [bands][]uint32 // of each value of a band, where in ids its hashes begin
	ids   [bands][]uint32
}

const bands = 16

func band(h picture.Hash, i int) uint16 { return uint16(h[i>>2] >> (16 * (i & 3))) }

func (x *pdqIndex) build() {
	if len(x.all) == 0 {
		return
	}
	for b := range bands {
		from := make([]uint32, 1<<16+1)
		for _, h := range x.all {
			from[int(band(h, b))+1]++
		}
		for i := range 1 << 16 {
			from[i+1] += from[i]
		}
		ids := make([]uint32, len(x.all))
		next := make([]uint32, 1<<16)
		copy(next, from)
		for i, h := range x.all {
			v := band(h, b)
			ids[next[v]] = uint32(i)
			next[v]++
		}
		x.from[b], x.ids[b] = from, ids
	}
}

func (x *pdqIndex) nearest(h picture.Hash) (at, distance int, ok bool) {
	if len(x.all) == 0 {
		return 0, 0, false
	}
	distance = picture.Near + 1
	look := func(b int, v uint16) {
		for _, id := range x.ids[b][x.from[b][v]:x.from[b][int(v)+1]] {
			if d := h.Distance(x.all[id]); d < distance {
				at, distance = int(id), d
			}
		}
	}
	for b := range bands {
		v := band(h, b)
		look(b, v)
		for i := range 16 {
			look(b, v^1<<i)
		}
		if distance == 0 {
			break
		}
	}
	return at, distance, distance <= picture.Near
}
