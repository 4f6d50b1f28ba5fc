package zone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	miekg "github.com/miekg/dns"
)

// maxZoneBytes bounds the text of a zone, including included files.
const maxZoneBytes = 4 << 30

// Read reads a zone in the form of RFC 1035 section 5, with $TTL and $GENERATE. Names are
// relative to origin until the text says otherwise; an empty origin means that of the first
// SOA. file names the text in errors ("file:line: ..."). $INCLUDE reads from file's folder and
// below, at most seven levels deep; with an empty file it is refused. Records outside the zone are
// left out, see Zone.Outside.
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
	in.push(file, r)
	if file != "" {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			return nil, fmt.Errorf("read zone: open folder for $INCLUDE: %w", err)
		}
		defer root.Close()
		in.dir, in.folder = root.FS(), filepath.Dir(file)
	}
	m, err := newMaster(in, origin)
	if err != nil {
		return nil, fmt.Errorf("read zone: %w", err)
	}
	p := miekg.NewZoneParser(m, "", "")
	z := &Zone{Origin: origin, files: []string{file}}
	defer func() { z.files = append(z.files, in.included...) }()
	wire := make([]byte, 2<<16)
	for {
		rr, ok := p.Next()
		if !ok {
			break
		}
		// The parser does not look at the digits of keys and digests.
		if _, err := miekg.PackRR(rr, wire, 0, nil, false); err != nil {
			return nil, in.explain(fmt.Errorf("%s: %w", typeName(rr.Header().Rrtype), err))
		}
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
	z.leaveOutside()
	return z, nil
}

// leaveOutside takes records outside the zone out of it. Other servers leave them out, too: they
// may be remains of a zone that was divided.
func (z *Zone) leaveOutside() {
	kept, places := z.Records[:0], z.places[:0]
	for i, rr := range z.Records {
		if miekg.IsSubDomain(z.Origin, rr.Header().Name) {
			kept, places = append(kept, rr), append(places, z.places[i])
			continue
		}
		z.outside = append(z.outside, Outside{z.places[i].String(), rr.Header().Name, rr.Header().Rrtype})
	}
	clear(z.Records[len(kept):])
	z.Records, z.places = kept, places
}

// An Outside is a record outside the zone that a file gives, which is not served.
type Outside struct {
	Where, Name string
	Type        uint16
}

func (o Outside) String() string {
	return fmt.Sprintf("%s: %s %s is outside the zone and not served", o.Where, o.Name, typeName(o.Type))
}

// Outside returns the records of the zone's files that are outside the zone.
func (z *Zone) Outside() []Outside { return z.outside }

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
	line   int
	fresh  bool // the next byte begins a line
	ended  bool
}

func (in *input) push(name string, r io.Reader) *countedFile {
	c := &countedFile{in: in, name: name, r: bufio.NewReader(r), fresh: true}
	in.files = append(in.files, c)
	return c
}

// include opens the file that $INCLUDE names.
func (in *input) include(name string) error {
	// A pipe without a writer would be opened for ever.
	if info, err := fs.Stat(in.dir, name); err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a file")
	}
	f, err := in.dir.Open(name)
	if err != nil {
		return err
	}
	c := in.push(filepath.Join(in.folder, filepath.FromSlash(name)), f)
	c.closer = f
	in.included = append(in.included, c.name)
	return nil
}

func (c *countedFile) ReadByte() (byte, error) {
	if c.in.left--; c.in.left < 0 {
		c.in.err = fmt.Errorf("%s:%d: the zone has more than %d bytes", c.name, c.line, int64(maxZoneBytes))
		return 0, c.in.err
	}
	b, err := c.r.ReadByte()
	if err != nil {
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

func (c *countedFile) Close() error {
	c.ended = true
	return c.closer.Close()
}

// top returns the file that is being read.
func (in *input) top() *countedFile {
	for len(in.files) > 1 && in.files[len(in.files)-1].ended {
		in.files = in.files[:len(in.files)-1]
	}
	return in.files[len(in.files)-1]
}

// place returns the line that ended last.
func (in *input) place() place {
	c := in.top()
	return place{c.name, c.line}
}

// explain turns an error of the parser, which gets a record in a line, into one with its place in
// the file.
func (in *input) explain(err error) error {
	what, _, _ := cutLast(err.Error(), " at line: ")
	if _, after, found := strings.Cut(what, "dns: "); found {
		what = after
	}
	return fmt.Errorf("%v: %s", in.place(), what)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
