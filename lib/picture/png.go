package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"slices"
)

// lookPNG reads the size of a PNG, and refuses one that takes too much memory to decode: with
// 16 bits a pixel takes twice the bytes.
func lookPNG(b []byte) (Head, error) {
	if len(b) < 26 {
		return Head{Format: PNG}, ErrCut
	}
	w, h := int64(binary.BigEndian.Uint32(b[16:])), int64(binary.BigEndian.Uint32(b[20:]))
	head, err := sized(PNG, w, h)
	for _, c := range chunksOf(b[:min(len(b), 64<<10)], maxChunks) {
		if c.name == "IDAT" {
			break
		}
		if c.name == "eXIf" { // PNG, Third Edition, section 11.3.3.5
			head.Turn = orientation(append([]byte("Exif\x00\x00"), c.data...))
		}
	}
	if err == nil && b[24] == 16 && w*h > MaxPixels/2 {
		err = fmt.Errorf("a PNG of %d × %d pixels with 16 bits: %w", w, h, ErrTooLarge)
	}
	return head, err
}

// decodePNG decodes a PNG. Like browsers, it decodes a truncated or damaged one as far as
// possible; cut reports that something is missing.
func decodePNG(b []byte) (m image.Image, cut bool, err error) {
	m, err = png.Decode(bytes.NewReader(b))
	if err == nil {
		return m, false, nil
	}
	whole, cut, ok := repairPNG(b)
	if !ok {
		return nil, false, err
	}
	m, err = png.Decode(bytes.NewReader(whole))
	return m, cut, err
}

// A chunk is a part of a PNG (PNG, Third Edition, section 5.3).
type chunk struct {
	name string
	data []byte
}

// chunksOf returns the chunks of a PNG up to its end or an error. The last may be truncated.
// Checksums are ignored.
func chunksOf(b []byte, most int) (all []chunk) {
	for at := len(pngMagic); at+8 <= len(b) && len(all) < most; {
		n := int64(binary.BigEndian.Uint32(b[at:]))
		from := at + 8
		to := min(int64(from)+n, int64(len(b)))
		all = append(all, chunk{string(b[at+4 : at+8]), b[from:to]})
		if int64(from)+n+4 > int64(len(b)) {
			break
		}
		at = from + int(n) + 4
	}
	return all
}

const maxChunks = 1 << 14

// repairPNG rewrites a PNG that browsers show although checksums are wrong or its end is missing.
// Missing pixels are black or transparent.
func repairPNG(b []byte) (whole []byte, cut, ok bool) {
	var head, before []chunk
	var data bytes.Buffer
	for _, c := range chunksOf(b, maxChunks) {
		switch c.name {
		case "IHDR":
			head = append(head, c)
		case "PLTE", "tRNS":
			if len(head) == 1 && len(head[0].data) == 13 && c.fitsHead(head[0].data) {
				before = append(before, c)
			}
		case "IDAT":
			data.Write(c.data)
		}
	}
	if len(head) != 1 || len(head[0].data) != 13 || data.Len() == 0 {
		return nil, false, false
	}
	size := rawSize(head[0].data)
	if size <= 0 || size > 4*MaxPixels+(1<<20) {
		return nil, false, false
	}
	raw := make([]byte, size)
	n := 0
	if r, err := zlib.NewReader(&data); err == nil {
		n, _ = io.ReadFull(r, raw)
		r.Close()
	}
	if n == 0 {
		return nil, false, false
	}
	var packed bytes.Buffer
	w, err := zlib.NewWriterLevel(&packed, zlib.NoCompression)
	if err == nil {
		if _, err = w.Write(raw); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return nil, false, false
	}
	all := append(append(head, before...), chunk{"IDAT", packed.Bytes()})
	return encodeChunks(all), n < len(raw), true
}

// fitsHead reports whether a palette or transparency fits a PNG with this head; browsers ignore
// others. It truncates a palette that is too long.
func (c *chunk) fitsHead(ihdr []byte) bool {
	kind := ihdr[9]
	if c.name == "tRNS" {
		return kind == 0 && len(c.data) == 2 || kind == 2 && len(c.data) == 6 || kind == 3 && len(c.data) <= 256
	}
	c.data = c.data[:min(len(c.data), 3<<min(ihdr[8], 8))]
	return kind == 3
}

// rawSize returns the length of a PNG's filtered lines in bytes.
func rawSize(ihdr []byte) int64 {
	w, h := int64(binary.BigEndian.Uint32(ihdr)), int64(binary.BigEndian.Uint32(ihdr[4:]))
	if w <= 0 || h <= 0 || w*h > MaxPixels {
		return 0
	}
	samples := map[byte]int64{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[ihdr[9]]
	bits := samples * int64(ihdr[8])
	part := func(w, h int64) int64 {
		if w == 0 || h == 0 {
			return 0
		}
		return h * (1 + (w*bits+7)/8)
	}
	if ihdr[12] == 0 {
		return part(w, h)
	}
	size := int64(0)
	for _, p := range [...][4]int64{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} { // Adam7
		size += part((w-p[0]+p[2]-1)/p[2], (h-p[1]+p[3]-1)/p[3])
	}
	return size
}

// encodeChunks returns a PNG that consists of chunks.
func encodeChunks(all []chunk) []byte {
	b := []byte(pngMagic)
	for _, c := range append(all, chunk{"IEND", nil}) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(c.data)))
		from := len(b)
		b = append(append(b, c.name...), c.data...)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
	}
	return b
}

// framesOfPNG returns the frames of an animated PNG (section 11.3.4), each as its data chunks,
// and the chunks before them. A PNG without animation has none.
func framesOfPNG(b []byte) (before []chunk, all [][]chunk) {
	moves := false
	for _, c := range chunksOf(b, maxChunks) {
		switch {
		case c.name == "acTL":
			moves = true
		case c.name == "IDAT" && !moves:
			return nil, nil
		case c.name == "IHDR" || c.name == "PLTE" || c.name == "tRNS":
			before = append(before, c)
		case c.name == "fcTL" && len(c.data) == 26:
			if len(all) == maxFrames {
				return before, all
			}
			all = append(all, []chunk{c})
		case c.name == "fdAT" && len(c.data) > 4:
			c.data = c.data[4:] // without its number
			fallthrough
		case c.name == "IDAT":
			if n := len(all); n > 0 {
				all[n-1] = append(all[n-1], c)
			}
		}
	}
	return before, all
}

// frameOfPNG returns how a frame is shown, by its control chunk (section 11.3.4.2).
func frameOfPNG(before, chunks []chunk) (f frame) {
	for _, c := range chunks {
		f.to += len(c.data)
	}
	const most = 1 << 20 // pixels a side, beyond which nothing is decoded
	d := chunks[0].data
	v := func(i int) int { return int(min(binary.BigEndian.Uint32(d[i:]), most)) }
	f.at = frameAt(v(12), v(16), v(4), v(8))
	f.over = d[25] == 1 && slices.ContainsFunc(before, func(c chunk) bool {
		return c.name == "tRNS" || c.name == "IHDR" && len(c.data) == 13 && c.data[9]&4 != 0
	})
	switch d[24] {
	case 1:
		f.then = cleared
	case 2:
		f.then = undone
	}
	return f
}

// stillPNG makes a file of one frame.
func stillPNG(before, frame []chunk) []byte {
	var all []chunk
	for _, c := range before {
		if c.name == "IHDR" && len(c.data) == 13 {
			c.data = append(append([]byte(nil), frame[0].data[4:12]...), c.data[8:]...)
		}
		all = append(all, c)
	}
	data := chunk{name: "IDAT"}
	for _, c := range frame[1:] {
		data.data = append(data.data, c.data...)
	}
	return encodeChunks(append(all, data))
}
