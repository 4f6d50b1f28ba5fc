package pcap

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// blocks writes numbers of 16 and 32 bits, and bytes, one after the other.
func blocks(order binary.AppendByteOrder, parts ...any) (b []byte) {
	for _, p := range parts {
		switch v := p.(type) {
		case uint16:
			b = order.AppendUint16(b, v)
		case uint32:
			b = order.AppendUint32(b, v)
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

// block returns a block of pcapng.
func block(order binary.AppendByteOrder, kind uint32, parts ...any) []byte {
	body := blocks(order, parts...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	size := uint32(len(body) + 12)
	return blocks(order, kind, size, body, size)
}

func section(order binary.AppendByteOrder) []byte {
	return block(order, sectionBlock, uint32(0x1a2b3c4d), uint16(1), uint16(0), "\xff\xff\xff\xff\xff\xff\xff\xff")
}

// described reads a capture, and returns a line for each packet.
func described(b []byte) string {
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		return "refused: " + err.Error()
	}
	var lines []string
	for {
		r, err := f.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(lines, "; ")
		} else if err != nil {
			return strings.Join(append(lines, "error: "+err.Error()), "; ")
		}
		at := "-"
		if !r.At.IsZero() {
			at = r.At.Format(time.RFC3339Nano)
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", r.Data, at, r.Link))
	}
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // into memory
	_ = z.Close()
	return out.Bytes()
}

func TestCaptureFilesAreRead(t *testing.T) {
	const second = 1_600_000_000 // 2020-09-13T12:26:40Z
	micro := uint64(second)*1e6 + 250_000
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		head := func(magic uint32) []byte {
			return blocks(order, magic, uint16(2), uint16(4), uint32(0), uint32(0), uint32(65535), uint32(0xf0000000|1))
		}
		packet := block(order, packetBlock, uint32(0), uint32(micro>>32), uint32(micro&0xffffffff), uint32(3), uint32(9), "abc")
		plain := block(order, interfaceBlock, uint16(1), uint16(0), uint32(2))
		nano := block(order, interfaceBlock, uint16(101), uint16(0), uint32(0), uint16(2), uint16(3), "eth\x00",
			uint16(9), uint16(1), "\x09\x00\x00\x00", uint16(14), uint16(8), order.AppendUint64(nil, 5), uint16(0), uint16(0))
		n := uint64(second)*1e9 + 7
		for _, tt := range []struct {
			what string
			file []byte
			want string
		}{
			{"pcap", append(head(0xa1b2c3d4), blocks(order, uint32(second), uint32(250_000), uint32(3), uint32(9), "abc")...),
				"abc 2020-09-13T12:26:40.25Z 1"},
			{"pcap with nanoseconds", append(head(0xa1b23c4d), blocks(order, uint32(second), uint32(7), uint32(2), uint32(2), "ab")...),
				"ab 2020-09-13T12:26:40.000000007Z 1"},
			{"pcap of patched libpcap", append(head(0xa1b2cd34), blocks(order, uint32(second), uint32(0), uint32(1), uint32(1), "12345678a")...),
				"a 2020-09-13T12:26:40Z 1"},
			{"pcap without a packet", head(0xa1b2c3d4), ""},
			{"pcap that breaks off in a packet", append(head(0xa1b2c3d4), blocks(order, uint32(second), uint32(0), uint32(3), uint32(3), "ab")...),
				"error: unexpected EOF"},
			{"pcap with an endless packet", append(head(0xa1b2c3d4), blocks(order, uint32(second), uint32(0), uint32(0xffffffff), uint32(3), "ab")...),
				"error: a packet has 4294967295 bytes"},
			{"pcapng", bytes.Join([][]byte{section(order), plain, packet}, nil), "abc 2020-09-13T12:26:40.25Z 1"},
			{"pcapng with unknown blocks", bytes.Join([][]byte{section(order), block(order, 0xbad, "anything"), plain, block(order, 5, "statistics"), packet}, nil),
				"abc 2020-09-13T12:26:40.25Z 1"},
			{"pcapng with nanoseconds and an offset", bytes.Join([][]byte{section(order), plain, nano,
				block(order, packetBlock, uint32(1), uint32(n>>32), uint32(n&0xffffffff), uint32(1), uint32(1), "x")}, nil),
				"x 2020-09-13T12:26:45.000000007Z 101"},
			{"pcapng with packets of other kinds", bytes.Join([][]byte{section(order), plain, block(order, simpleBlock, uint32(4), "wxyz"),
				block(order, oldPacketBlock, uint16(0), uint16(0), uint32(micro>>32), uint32(micro&0xffffffff), uint32(1), uint32(1), "o")}, nil),
				"wx - 1; o 2020-09-13T12:26:40.25Z 1"},
			{"a section forgets interfaces", bytes.Join([][]byte{section(order), plain, section(order), packet}, nil),
				" - -1"},
			{"a section may have another byte order", bytes.Join([][]byte{section(binary.BigEndian), section(order), plain, packet}, nil),
				"abc 2020-09-13T12:26:40.25Z 1"},
			{"a block that is too short", bytes.Join([][]byte{section(order), blocks(order, uint32(packetBlock), uint32(8))}, nil), "error: a block has 8 bytes"},
			{"a block that is too long", bytes.Join([][]byte{section(order), blocks(order, uint32(packetBlock), uint32(1<<30), "x")}, nil), "error: a block has 1073741824 bytes"},
			{"a packet longer than its block", bytes.Join([][]byte{section(order), plain, block(order, packetBlock, uint32(0), uint32(0), uint32(0), uint32(100), uint32(100), "abc")}, nil),
				" - -1"},
			{"a resolution that is none", bytes.Join([][]byte{section(order), block(order, interfaceBlock, uint16(1), uint16(0), uint32(0), uint16(9), uint16(1), "\xff\x00\x00\x00")}, nil),
				"error: time stamps have the resolution 0xff"},
			{"pcapng that breaks off", bytes.Join([][]byte{section(order), plain, packet[:len(packet)-6]}, nil), "error: unexpected EOF"},
		} {
			if got := described(tt.file); got != tt.want {
				t.Errorf("%v, %s: reading the capture gave %q, want %q", order, tt.what, got, tt.want)
			}
			if got := described(compressed(tt.file)); got != tt.want {
				t.Errorf("%v, %s, compressed: reading the capture gave %q, want %q", order, tt.what, got, tt.want)
			}
		}
	}
	for file, want := range map[string]string{
		"":                                     "refused: the file is too short for a capture",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":    "refused: the file begins with 47455420: it is neither pcap nor pcapng",
		"\x0a\x0d\x0d\x0a\x00\x00\x00\x1cxxxx": "refused: a section has the unknown byte order 78787878",
		"\x1f\x8bGET / HTTP":                   "refused: reading the compressed capture: gzip: invalid header",
		string(compressed(nil)):                "refused: the file is too short for a capture",
		string(compressed([]byte("GET / HTTP/1.1, and more than a head of a capture"))): "refused: the file begins with 47455420: it is neither pcap nor pcapng",
		string(compressed([]byte("GET /"))[:8]):                                         "refused: reading the compressed capture: unexpected EOF",
	} {
		if got := described([]byte(file)); got != want {
			t.Errorf("reading %q gave %q, want %q", file, got, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	order := binary.LittleEndian
	f.Add(blocks(order, uint32(0xa1b2c3d4), uint16(2), uint16(4), uint32(0), uint32(0), uint32(65535), uint32(1), uint32(1), uint32(1), uint32(2), uint32(2), "ab"))
	f.Add(bytes.Join([][]byte{section(order), block(order, interfaceBlock, uint16(1), uint16(0), uint32(2)),
		block(order, packetBlock, uint32(0), uint32(1), uint32(2), uint32(1), uint32(1), "x"), block(order, simpleBlock, uint32(4), "wxyz")}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := Open(bytes.NewReader(b))
		if err != nil {
			return
		}
		total := 0
		for {
			r, err := in.Next()
			if err != nil {
				break
			}
			if total += len(r.Data); total > len(b) {
				t.Fatalf("packets have %d bytes in a file of %d", total, len(b))
			}
		}
	})
}
