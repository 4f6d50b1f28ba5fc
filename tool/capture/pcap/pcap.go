// Package pcap reads the files of captures: pcap and pcapng.
package pcap

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

const (
	// mostPacket limits one packet: it exceeds that of any network, and equals the limit of
	// libpcap.
	mostPacket = 256 << 10
	// mostBlock limits a block of pcapng: a packet with options.
	mostBlock = mostPacket + 64<<10
	// mostInterfaces limits the interfaces in a section of pcapng.
	mostInterfaces = 1 << 16
)

// A Record is one packet in a capture file.
type Record struct {
	Data []byte // belongs to the caller
	At   time.Time
	Link int // link type, from the registry of LINKTYPE values
}

// Unknown is the link type of a packet of which nothing can be read.
const Unknown = -1

// A File returns the packets of a capture, io.EOF after the last. Any other error means that
// the rest of the file is damaged.
type File interface{ Next() (Record, error) }

// Open returns the packets of a pcap or pcapng file, also one compressed with gzip
// (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).
func Open(in io.Reader) (File, error) {
	b := bufio.NewReaderSize(in, 1<<20)
	magic, err := b.Peek(4)
	if err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("reading the compressed capture: %w", err)
		}
		b = bufio.NewReaderSize(z, 1<<20)
		if magic, err = b.Peek(4); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading the compressed capture: %w", err)
		}
	}
	if len(magic) < 4 {
		return nil, errors.New("the file is too short for a capture")
	}
	if binary.BigEndian.Uint32(magic) == sectionBlock {
		f := &pcapng{in: b}
		return f, f.section()
	}
	return openPcap(b)
}

// A pcap is a file in libpcap's format.
type pcap struct {
	in    *bufio.Reader
	order binary.ByteOrder
	unit  time.Duration // of fractions of a second
	link  int
	extra int // bytes between the head of a record and its packet
}

func openPcap(in *bufio.Reader) (*pcap, error) {
	var head [24]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, errors.New("the file is too short for a capture")
	}
	f := &pcap{in: in, unit: time.Microsecond}
	for _, f.order = range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch f.order.Uint32(head[:]) {
		case 0xa1b23c4d:
			f.unit = time.Nanosecond
		case 0xa1b2cd34: // of patched versions of libpcap: more data per packet
			f.extra = 8
		case 0xa1b2c3d4:
		default:
			continue
		}
		f.link = int(f.order.Uint32(head[20:]) & 0xffff) // the rest describes checksums of frames
		return f, nil
	}
	return nil, fmt.Errorf("the file begins with %x: it is neither pcap nor pcapng", head[:4])
}

func (f *pcap) Next() (Record, error) {
	var head [24]byte
	h := head[:16+f.extra]
	if _, err := io.ReadFull(f.in, h); err != nil {
		return Record{}, err
	}
	size := f.order.Uint32(h[8:])
	if size > mostPacket {
		return Record{}, fmt.Errorf("a packet has %d bytes", size)
	}
	r := Record{Data: make([]byte, size), Link: f.link,
		At: time.Unix(int64(f.order.Uint32(h)), int64(f.order.Uint32(h[4:]))*int64(f.unit)).UTC()}
	_, err := io.ReadFull(f.in, r.Data)
	return r, cutOff(err)
}

// cutOff converts an error of a read in the middle of a structure.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Types of blocks of pcapng.
const (
	sectionBlock   = 0x0a0d0d0a
	interfaceBlock = 1
	oldPacketBlock = 2 // no longer written
	simpleBlock    = 3
	packetBlock    = 6
)

// An origin is one interface of a section.
type origin struct {
	link    int
	snap    uint32 // longest packet, 0 for no limit
	seconds uint64 // units of time stamps per second
	offset  int64  // seconds to add
}

// A pcapng is a file in the format of Wireshark.
type pcapng struct {
	in      *bufio.Reader
	order   binary.ByteOrder
	origins []origin
	block   []byte
}

// section reads the head of a section, which sets the byte order up to the next one.
func (f *pcapng) section() error {
	head, err := f.in.Peek(12)
	if err != nil {
		return errors.New("the head of a section is truncated")
	}
	switch f.order = binary.LittleEndian; binary.LittleEndian.Uint32(head[8:]) {
	case 0x1a2b3c4d:
	case 0x4d3c2b1a:
		f.order = binary.BigEndian
	default:
		return fmt.Errorf("a section has the unknown byte order %x", head[8:])
	}
	f.origins = f.origins[:0]
	return f.skip(f.order.Uint32(head[4:]))
}

// skip skips the rest of a block, given its size.
func (f *pcapng) skip(size uint32) error {
	if size < 12 {
		return fmt.Errorf("a block has %d bytes", size)
	}
	_, err := io.CopyN(io.Discard, f.in, (int64(size)+3)&^3)
	return cutOff(err)
}

func (f *pcapng) Next() (Record, error) {
	for {
		head, err := f.in.Peek(8)
		if err != nil {
			if len(head) > 0 {
				err = cutOff(err)
			}
			return Record{}, err
		}
		if binary.BigEndian.Uint32(head) == sectionBlock {
			if err := f.section(); err != nil {
				return Record{}, err
			}
			continue
		}
		kind, size := f.order.Uint32(head), f.order.Uint32(head[4:])
		switch kind {
		case interfaceBlock, oldPacketBlock, simpleBlock, packetBlock:
		default:
			if err := f.skip(size); err != nil {
				return Record{}, err
			}
			continue
		}
		body, err := f.read(size)
		if err != nil {
			return Record{}, err
		}
		if kind == interfaceBlock {
			if err := f.add(body); err != nil {
				return Record{}, err
			}
			continue
		}
		return f.packet(kind, body)
	}
}

// read returns the content of a block, given its size. It is valid until the next call.
func (f *pcapng) read(size uint32) ([]byte, error) {
	if size < 12 || size > mostBlock {
		return nil, fmt.Errorf("a block has %d bytes", size)
	}
	whole := int(size+3) &^ 3
	if cap(f.block) < whole {
		f.block = make([]byte, whole)
	}
	f.block = f.block[:whole]
	if _, err := io.ReadFull(f.in, f.block); err != nil {
		return nil, cutOff(err)
	}
	return f.block[8 : whole-4], nil
}

// add reads the description of an interface.
func (f *pcapng) add(b []byte) error {
	if len(b) < 8 || len(f.origins) == mostInterfaces {
		return fmt.Errorf("the description of an interface has %d bytes, after %d others", len(b), len(f.origins))
	}
	o := origin{link: int(f.order.Uint16(b)), snap: f.order.Uint32(b[4:]), seconds: 1e6}
	for b = b[8:]; len(b) >= 4; {
		code, n := f.order.Uint16(b), int(f.order.Uint16(b[2:]))
		if b = b[4:]; code == 0 || n > len(b) {
			break
		}
		switch v := b[:n]; {
		case code == 9 && n == 1: // if_tsresol
			if o.seconds = resolution(v[0]); o.seconds == 0 {
				return fmt.Errorf("time stamps have the resolution %#x", v[0])
			}
		case code == 14 && n == 8: // if_tsoffset
			o.offset = int64(f.order.Uint64(v))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	f.origins = append(f.origins, o)
	return nil
}

// resolution returns the number of time stamp units per second, 0 if that is not an integer.
func resolution(v byte) uint64 {
	if v&0x80 != 0 {
		return 1 << (v & 0x7f)
	}
	if v > 19 {
		return 0
	}
	n := uint64(1)
	for range v {
		n *= 10
	}
	return n
}

// packet reads a packet block. It is damaged if its interface was not described, or if the
// packet has more bytes than the block; later blocks are still read.
func (f *pcapng) packet(kind uint32, b []byte) (r Record, err error) {
	head := 20
	if kind == simpleBlock {
		head = 4
	}
	if len(b) < head {
		return r, fmt.Errorf("the block of a packet has %d bytes", len(b))
	}
	number := 0
	switch kind {
	case packetBlock:
		number = int(f.order.Uint32(b))
	case oldPacketBlock:
		number = int(f.order.Uint16(b))
	}
	if number >= len(f.origins) {
		return Record{Link: Unknown}, nil
	}
	o := &f.origins[number]
	r.Link = o.link
	var size uint32
	if kind == simpleBlock {
		if size = f.order.Uint32(b); o.snap != 0 {
			size = min(size, o.snap)
		}
	} else {
		size = f.order.Uint32(b[12:])
		r.At = o.time(uint64(f.order.Uint32(b[4:]))<<32 | uint64(f.order.Uint32(b[8:])))
	}
	b = b[head:]
	if uint64(size) > uint64(len(b)) || size > mostPacket {
		return Record{Link: Unknown}, nil
	}
	r.Data = append(make([]byte, 0, size), b[:size]...)
	return r, nil
}

func (o *origin) time(stamp uint64) time.Time {
	high, low := bits.Mul64(stamp%o.seconds, 1e9)
	nano, _ := bits.Div64(high, low, o.seconds)
	return time.Unix(int64(stamp/o.seconds)+o.offset, int64(nano)).UTC()
}
