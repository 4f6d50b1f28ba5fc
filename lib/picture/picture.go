// Package picture decodes pictures: their type and size, a small copy, and values that
// can be computed from that: skin and hashes.
//
// [Look] reads type and size from the first bytes, and refuses pictures that are too small to
// show anything or too large to decode. [Shrink] makes a copy at an eighth of the size: of a
// JPEG it decodes only the mean of each block of 8 × 8, of a progressive JPEG only the first
// scans. Other formats are decoded completely and then reduced. [Planes.Skin] and
// [Planes.DHash] work on copies, [PDQ] on the complete picture. Every step limits memory and
// pixels, whatever the input.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Format is a type of picture.
type Format uint8

const (
	NotAPicture Format = iota
	JPEG
	PNG
	GIF
	WebP
	BMP
	ICO
	AVIF
	HEIC
)

func (f Format) String() string {
	return [...]string{"not a picture", "JPEG", "PNG", "GIF", "WebP", "BMP", "ICO", "AVIF", "HEIC"}[f]
}

// Limits of decoding.
const (
	MinSide   = 64       // pixels of the shorter side; smaller pictures are icons
	MaxPixels = 40 << 20 // of the declared size
	maxPlane  = 4 << 20  // samples of a reduced plane
)

var (
	// ErrFormat reports bytes that are not a picture in a known format.
	ErrFormat = errors.New("not a picture of a known format")
	// ErrIcon reports a picture that is too small to show anything.
	ErrIcon = errors.New("an icon")
	// ErrTooLarge reports a picture with more pixels than are decoded.
	ErrTooLarge = errors.New("more pixels than are decoded")
	// ErrUnread reports a format that is not supported.
	ErrUnread = errors.New("a format that is not decoded")
	// ErrCut reports a picture that ends too early.
	ErrCut = errors.New("the picture is cut off")
)

// A Head is the information in the first bytes of a picture.
type Head struct {
	Format        Format
	Width, Height int   // pixels; 0 if the first bytes do not contain it
	Turn          uint8 // how it is turned when it is shown, see [Head.DisplaySize]; 0 and 1: as it is
}

// Look reads the head of a picture. It needs at most the first 64 KiB, and returns ErrCut if
// the size comes later.
func Look(b []byte) (Head, error) {
	switch {
	case len(b) < 12:
		return Head{}, ErrFormat
	case b[0] == 0xff && b[1] == 0xd8 && b[2] == 0xff:
		return lookJPEG(b)
	case bytes.HasPrefix(b, []byte(pngMagic)):
		return lookPNG(b)
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return lookGIF(b)
	case bytes.HasPrefix(b, []byte("RIFF")) && string(b[8:12]) == "WEBP":
		return lookWebP(b)
	case b[0] == 'B' && b[1] == 'M' && len(b) >= 26 && little.Uint32(b[14:]) == 12:
		return sized(BMP, int64(little.Uint16(b[18:])), int64(little.Uint16(b[20:])))
	case b[0] == 'B' && b[1] == 'M' && len(b) >= 26 && (little.Uint32(b[14:]) >= 40 || little.Uint32(b[14:]) == 16):
		w, h := int64(int32(little.Uint32(b[18:]))), int64(int32(little.Uint32(b[22:])))
		return sized(BMP, w, max(h, -h))
	case b[0] == 0 && b[1] == 0 && (b[2] == 1 || b[2] == 2) && b[3] == 0 && b[5] == 0 && b[4] > 0:
		return lookIcon(b)
	case string(b[4:8]) == "ftyp":
		return lookBoxes(b)
	}
	return Head{}, ErrFormat
}

// sized validates a declared size.
func sized(f Format, w, h int64) (Head, error) {
	x := Head{Format: f}
	if w <= 0 || h <= 0 || w > 1<<20 || h > 1<<20 {
		return x, fmt.Errorf("a %s of %d × %d pixels: %w", f, w, h, ErrTooLarge)
	}
	x.Width, x.Height = int(w), int(h)
	switch {
	case min(w, h) < MinSide:
		return x, ErrIcon
	case w*h > MaxPixels:
		return x, fmt.Errorf("a %s of %d × %d pixels: %w", f, w, h, ErrTooLarge)
	}
	return x, nil
}

// lookIcon reads the size of the largest picture in an icon file.
func lookIcon(b []byte) (Head, error) {
	_, _, w, h, err := largestIcon(b)
	if err != nil && w == 0 {
		return Head{Format: ICO}, err
	}
	return sized(ICO, int64(w), int64(h))
}

const pngMagic = "\x89PNG\r\n\x1a\n"

func lookJPEG(b []byte) (Head, error) {
	turn := uint8(0)
	for i := 2; i+9 < len(b); {
		if b[i] != 0xff {
			return Head{Format: JPEG}, ErrFormat
		}
		m := b[i+1]
		switch {
		case m == 0xff || m == 0xd8 || m == 0x01 || 0xd0 <= m && m <= 0xd7:
			i++
			if m != 0xff {
				i++
			}
			continue
		case m == 0xd9 || m == 0xda:
			return Head{Format: JPEG}, ErrFormat
		case 0xc0 <= m && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc:
			head, err := sized(JPEG, int64(binary.BigEndian.Uint16(b[i+7:])), int64(binary.BigEndian.Uint16(b[i+5:])))
			head.Turn = turn
			return head, err
		}
		n := int(binary.BigEndian.Uint16(b[i+2:]))
		if n < 2 {
			return Head{Format: JPEG}, ErrFormat
		}
		if m == 0xe1 && turn <= 1 {
			turn = orientation(b[i+4 : max(i+4, min(i+2+n, len(b)))])
		}
		i += 2 + n
	}
	return Head{Format: JPEG}, ErrCut
}

func lookWebP(b []byte) (Head, error) {
	if len(b) < 30 {
		return Head{Format: WebP}, ErrCut
	}
	switch string(b[12:16]) {
	case "VP8 ":
		return sized(WebP, int64(binary.LittleEndian.Uint16(b[26:])&0x3fff), int64(binary.LittleEndian.Uint16(b[28:])&0x3fff))
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[21:])
		return sized(WebP, int64(bits&0x3fff)+1, int64(bits>>14&0x3fff)+1)
	case "VP8X":
		w := int64(b[24]) | int64(b[25])<<8 | int64(b[26])<<16
		h := int64(b[27]) | int64(b[28])<<8 | int64(b[29])<<16
		return sized(WebP, w+1, h+1)
	}
	return Head{Format: WebP}, ErrFormat
}

// lookBoxes reads the brand and the largest size ("ispe") of a file in the ISO
// base media format (ISO 14496-12, 23008-12).
func lookBoxes(b []byte) (Head, error) {
	f := NotAPicture
	switch string(b[8:12]) {
	case "avif", "avis":
		f = AVIF
	case "heic", "heix", "hevc", "heim", "heis", "mif1", "msf1":
		f = HEIC
	default:
		return Head{}, ErrFormat
	}
	var w, h int64
	for rest := b[:min(len(b), 64<<10)]; ; {
		i := bytes.Index(rest, []byte("ispe"))
		if i < 0 || i+16 > len(rest) {
			break
		}
		x, y := int64(binary.BigEndian.Uint32(rest[i+8:])), int64(binary.BigEndian.Uint32(rest[i+12:]))
		if x*y > w*h {
			w, h = x, y
		}
		rest = rest[i+16:]
	}
	if w == 0 {
		return Head{Format: f}, ErrCut
	}
	head, err := sized(f, w, h)
	// The box has the number of quarter turns, anticlockwise.
	if i := bytes.Index(b[:min(len(b), 64<<10)], []byte("\x00\x00\x00\x09irot")); i >= 0 && i+9 <= len(b) {
		head.Turn = [4]uint8{1, 8, 3, 6}[b[i+8]&3]
	}
	return head, err
}
