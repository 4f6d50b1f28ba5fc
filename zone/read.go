package zone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	miekg "github.com/miekg/dns"
)

// maxZoneBytes bounds the text of a zone, including included files.
const maxZoneBytes = 4 << 30

// Read reads a zone in the form of RFC 1035 section 5, with $TTL and $GENERATE. Names are
// relative to origin until the text says otherwise; an empty origin means that of the first
// SOA. file names the text in errors ("file:line: ..."). $INCLUDE reads from file's folder and
// below, at most seven levels deep; with an empty file it is refused.
//
// Read checks only the syntax. Check finds other mistakes.
func Read(r io.Reader, origin, file string) (*Zone, error) {
	in := &input{left: maxZoneBytes}
	if origin != "" {
		if _, ok := miekg.IsDomainName(origin); !ok {
			return nil, fmt.Errorf("read zone: origin %q is not a domain name", origin)
		}
		origin = miekg.CanonicalName(origin)
	}
	p := miekg.NewZoneParser(in.push(file, r), miekg.Fqdn(origin), filepath.Base(file))
	p.SetDefaultTTL(3600)
	if file != "" {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			return nil, fmt.Errorf("read zone: open folder for $INCLUDE: %w", err)
		}
		defer root.Close()
		in.dir, in.folder = root.FS(), filepath.Dir(file)
		p.SetIncludeFS(in)
		p.SetIncludeAllowed(true)
	}
	z := &Zone{Origin: origin, files: []string{file}}
	defer func() { z.files = append(z.files, in.included...) }()
	for {
		rr, ok := p.Next()
		if !ok {
			break
		}
		rr.Header().Name = strings.ToLower(rr.Header().Name)
		if z.Origin == "" && rr.Header().Rrtype == miekg.TypeSOA {
			z.Origin = miekg.CanonicalName(rr.Header().Name)
		}
		z.Records = append(z.Records, rr)
		z.places = append(z.places, in.place())
	}
	if in.err != nil {
		return nil, in.err
	}
	if err := p.Err(); err != nil {
		return nil, in.explain(err)
	}
	if z.Origin == "" {
		return nil, fmt.Errorf("%s: no SOA record: name the zone's origin or give it one", in.place())
	}
	return z, nil
}

// ReadFile reads the zone in a file.
func ReadFile(file, origin string) (*Zone, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read zone: %w", err)
	}
	defer f.Close()
	return Read(f, origin, file)
}

// An input is the stack of files being read, the last included on top. It counts lines,
// because the parser does not report them.
type input struct {
	dir    fs.FS
	folder string
	files  []*countedFile

	included []string
	left     int64
	err      error
}

// A countedFile is one file. The parser reads it byte by byte, so the count matches the part
// that it has parsed.
type countedFile struct {
	in     *input
	name   string
	r      *bufio.Reader
	closer io.Closer
	stat   func() (fs.FileInfo, error)
	line   int
	fresh  bool // the next byte begins a line
	ended  bool
}

func (in *input) push(name string, r io.Reader) *countedFile {
	c := &countedFile{in: in, name: name, r: bufio.NewReader(r), fresh: true}
	in.files = append(in.files, c)
	return c
}

// Open opens the file that $INCLUDE names, for the parser.
func (in *input) Open(name string) (fs.File, error) {
	f, err := in.dir.Open(name)
	if err != nil {
		return nil, err
	}
	c := in.push(filepath.Join(in.folder, filepath.FromSlash(name)), f)
	c.closer, c.stat = f, f.Stat
	in.included = append(in.included, c.name)
	return c, nil
}

func (c *countedFile) ReadByte() (byte, error) {
	if c.in.left--; c.in.left < 0 {
		c.in.err = fmt.Errorf("%s:%d: the zone has more than %d bytes", c.name, c.line, int64(maxZoneBytes))
		return 0, c.in.err
	}
	b, err := c.r.ReadByte()
	if err != nil {
		c.ended = true
		if !errors.Is(err, io.EOF) {
			c.in.err = fmt.Errorf("%s:%d: read zone: %w", c.name, c.line, err)
		}
		return 0, err
	}
	if c.fresh {
		c.line++
	}
	c.fresh = b == '\n'
	return b, nil
}

func (c *countedFile) Read(p []byte) (int, error) {
	for i := range p {
		b, err := c.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = b
	}
	return len(p), nil
}

func (c *countedFile) Stat() (fs.FileInfo, error) { return c.stat() }

func (c *countedFile) Close() error {
	c.ended = true
	return c.closer.Close()
}

// place returns the line that ended last.
func (in *input) place() place {
	for len(in.files) > 1 && in.files[len(in.files)-1].ended {
		in.files = in.files[:len(in.files)-1]
	}
	c := in.files[len(in.files)-1]
	return place{c.name, c.line}
}

// explain turns an error of the parser into one with a place.
func (in *input) explain(err error) error {
	text := err.Error()
	what, at, found := cutLast(text, " at line: ")
	if !found {
		return fmt.Errorf("%s: %w", in.place(), err)
	}
	_, what, _ = strings.Cut(what, "dns: ")
	line, _, _ := strings.Cut(at, ":")
	n, _ := strconv.Atoi(line)
	return fmt.Errorf("%v: %s", place{in.place().file, n}, what)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
