package list

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"shuultuur/lib/dns"
)

// fuzzLines feeds text in one format to a builder and checks the result: every
// entry in normal form, every line counted, every entry found.
func fuzzLines(f *testing.F, format FormatName, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Add([]byte("\ufeff\r\n\x00\xff\n#\n" + strings.Repeat("a", 300) + ".com\nb\u00fccher.de\n[::1]:80/x\n..\n*.\n||^\n=/\n"))
	f.Add([]byte("\xff\xfe"))
	f.Add([]byte("\xfe\xff\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, match := range []string{Boundary, Prefix} {
			cfg, err := Config{Format: format, Path: "x", Match: match}.normal()
			if err != nil {
				t.Fatal(err)
			}
			b := newBuilder(context.Background(), "x", cfg, defaultSeed)
			if err := b.file(bytes.NewReader(text), "x", format, "x"); err != nil {
				t.Fatal(err)
			}
			lines := bytes.Count(text, []byte("\n"))
			if n := len(text); n > 0 && text[n-1] != '\n' {
				lines++
			}
			if b.report.Lines != lines && !marked(text) {
				t.Errorf("the report counts %d lines, want %d", b.report.Lines, lines)
			}
			checkBuilt(t, b)
		}
	})
}

// marked reports whether text begins with a byte order mark. In UTF-16, a byte of
// a line feed need not end a line.
func marked(text []byte) bool {
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return true
		}
	}
	return false
}

func checkBuilt(t *testing.T, b *builder) {
	t.Helper()
	for i := range b.entries.parts {
		for j := range b.entries.parts[i].n {
			e := &b.entries.parts[i].blocks[j/blockLen][j%blockLen]
			key := b.entries.key(e)
			host, path := key, []byte(nil)
			if k := bytes.IndexByte(key, '/'); k >= 0 {
				host, path = key[:k], key[k:]
			}
			again, reason := dns.Host(nil, host)
			if reason != "" || !bytes.Equal(again, host) {
				t.Errorf("entry %q is not in normal form: %q %s", host, again, reason)
			}
			if len(key) > maxKey {
				t.Errorf("entry %q is longer than maxKey", key)
			}
			want := hashHost(host, defaultSeed)
			if path != nil {
				want = hashPath(want, path, b.cfg.Match == Prefix)
			}
			if e.hash() != want {
				t.Errorf("entry %q: its hash differs from that of its key", key)
			}
			var q Query
			q.SetHost(string(host))
			if q.n == 0 || path == nil && q.sums[q.n-1] != want {
				t.Errorf("entry %q: no Query has its hash", key)
			}
		}
	}
}

func FuzzDomains(f *testing.F) {
	fuzzLines(f, Domains, "a.com\n.xxx\nhttp://b.com:80/x?y#z\n10.1.1.1\n2001:db8::1\nd.com/%41/../b\n")
}

func FuzzHosts(f *testing.F) {
	fuzzLines(f, Hosts, "127.0.0.1 localhost\n0.0.0.0 a.com b.com #c\n::1 x\n")
}

func FuzzPihole(f *testing.F) {
	fuzzLines(f, Pihole, "# c\n(^|\\.)a[0-9]+\\.com$;querytype=!A,AAAA;invert\nb;reply=1.2.3.4;reply=::1\n(?#x)c;reply=none\n(d\n")
}

func FuzzAdblock(f *testing.F) {
	fuzzLines(f, Adblock, "[Adblock Plus 2.0]\n||a.com^\n@@||b.com^|\n||c.com^$important\nd##e\n")
}

func FuzzWildcard(f *testing.F) { fuzzLines(f, "wildcard", "*.a.com\nb.com\n*.zip\n") }

func FuzzDnsmasq(f *testing.F) {
	fuzzLines(f, "dnsmasq", "address=/a.com/#\nserver=/b.com/\nlocal=/c.com/d.com/\naddress=/e.com/0.0.0.0\n")
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`["a.com", {"entry": "b.com/x", "category": "c", "exception": true}]`, "\"a.com\"\n{\"url\":\"http://c.com\"}", "[[[[", `{"a":`, "[\"a.com\",\n\n\"b.com\"] "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBuilder(context.Background(), "x", Config{Match: Boundary}, defaultSeed)
		if err := b.file(bytes.NewReader(data), "x", "json", "c"); err != nil {
			return
		}
		if n := bytes.Count(data, []byte("\n")) + 1; b.report.Lines > n {
			t.Errorf("the report counts %d lines of %d", b.report.Lines, n)
		}
		checkBuilt(t, b)
	})
}

func FuzzCSV(f *testing.F) {
	fuzzLines(f, "csv", "domain,category\na.com,x\n", "# id,\"url\"\n1,\"http://a.com/\"\"\"\n", "a.com;1\n", "entry,exact\na.com,maybe\n\"")
}

func FuzzReadChanges(f *testing.F) {
	f.Add([]byte(`[{"entry":"a.com","remove":true},"b.com/x"]`))
	f.Add([]byte("entry,remove\na.com,true\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		changes, err := ReadChanges(bytes.NewReader(data))
		if err != nil && changes != nil {
			t.Error("parseEntry returned changes together with an error")
		}
		for _, c := range changes {
			if _, _, err := parseEntry(c.Entry, Boundary); err != nil {
				t.Errorf("took %q: %v", c.Entry, err)
			}
		}
	})
}

func FuzzAuto(f *testing.F) {
	fuzzLines(f, Auto, "a.com\n", "0.0.0.0 a.com\n", "||a.com^\n", "*.a.com\n", "address=/a.com/\n")
}

// FuzzTar reads damaged archives.
func FuzzTar(f *testing.F) {
	zr, err := gzip.NewReader(bytes.NewReader(tarTree(f, "blacklists/")))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBuilder(context.Background(), "x", Config{Format: UT1, Path: "x", Match: Boundary}, defaultSeed)
		if err := b.readTar(bytes.NewReader(data)); err == nil {
			checkBuilt(t, b)
		}
	})
}

// FuzzOpen opens damaged files, as they are and with corrected checksums, and
// queries them.
func FuzzOpen(f *testing.F) {
	for _, match := range []string{Boundary, Prefix} {
		file, _ := compileText(f, Config{Match: match}, "a.com\nwww.a.com\nb.com/x\n10.1.1.1\n")
		f.Add(bytes.Clone(file.data))
		f.Add(bytes.Clone(file.data[:headerSize]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q := new(Query)
		if file, err := open("fuzz", data); err == nil {
			exercise(file, q)
		}
		if len(data) < headerSize {
			return
		}
		data = bytes.Clone(data)
		var h header
		if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil {
			t.Fatal(err)
		}
		h.Magic, h.Version, h.Size = magic, version, uint64(len(data))
		for i := range h.Section {
			s := &h.Section[i]
			s.Offset %= h.Size + 1
			s.Size = min(s.Size, h.Size-s.Offset)
			s.Sum = crc32.Checksum(data[s.Offset:s.Offset+s.Size], castagnoli)
		}
		if n := h.Section[secIndex].Size / 4; n > 1 {
			h.Buckets, h.Section[secIndex].Size = n-1, n*4
		}
		if n := h.Section[secBloom].Size / 64; n > 0 {
			h.Blocks, h.Section[secBloom].Size = n, n*64
		}
		for i := range h.Section {
			s := &h.Section[i]
			s.Sum = crc32.Checksum(data[s.Offset:s.Offset+s.Size], castagnoli)
		}
		copy(data, h.encode())
		if file, err := open("fuzz", data); err == nil {
			exercise(file, q)
		}
	})
}

// FuzzQuery: cleaning a path twice has the same effect as decoding, and the
// hashes of a query are those of its suffixes.
func FuzzQuery(f *testing.F) {
	f.Add("www.example.com", "/a/../b//c?x=%41/..#d")
	f.Add("10.0.0.1", "/")
	f.Add("2001:DB8::1", "/%2e%2e/")
	f.Add("a..b.", "/..")
	f.Fuzz(func(t *testing.T, host, path string) {
		q := new(Query)
		q.SetURL(host, []byte(path))
		for i := range q.n {
			s := q.suffix(i)
			if len(s) == 0 || len(s) > maxHost || !strings.HasSuffix(q.host, s) {
				t.Errorf("host %q: suffix %d is %q", host, i, s)
			}
			if hashHost([]byte(s), defaultSeed) != q.sums[i] {
				t.Errorf("host %q: the hash of suffix %d is not that of its name", host, i)
			}
		}
		if q.path == nil {
			return
		}
		if len(q.path) > maxKey+1 || q.path[0] != '/' {
			t.Errorf("path %q became the invalid path %q", path, q.path)
		}
		clean, _, _ := bytes.Cut(q.path, []byte("?"))
		if !bytes.Contains(q.path, []byte("%")) && (bytes.Contains(clean, []byte("/../")) || bytes.Contains(clean, []byte("//"))) && !strings.Contains(strings.ToLower(path), "%3f") {
			t.Errorf("path %q became %q, which is not clean", path, q.path)
		}
	})
}
