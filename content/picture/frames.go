package picture

import (
	"bytes"
	"encoding/binary"
)

// maxFrames is how many frames of an animation are looked at.
const maxFrames = 64

// Stills returns the pictures to look at in a file: the file itself or, of an
// animation (GIF, PNG, WebP), its first frame and that of the first 64 which says
// most, if it has twice the bytes: an animation may begin with an empty frame.
// Each is a file of its own.
func Stills(b []byte) [][]byte {
	var frames []frame
	var build func(i int) []byte
	switch {
	case bytes.HasPrefix(b, []byte("GIF8")):
		head, all := framesOfGIF(b, maxFrames)
		frames = all
		build = func(i int) []byte {
			f := all[i]
			return append(append(append([]byte(nil), b[:head]...), b[f.from:f.to]...), 0x3b)
		}
	case bytes.HasPrefix(b, []byte("RIFF")) && len(b) > 30 && string(b[8:16]) == "WEBPVP8X" && b[20]&2 != 0:
		frames = framesOfWebP(b)
		build = func(i int) []byte { return stillWebP(b[frames[i].from:frames[i].to]) }
	case bytes.HasPrefix(b, []byte(pngMagic)):
		before, all := framesOfPNG(b)
		for _, f := range all {
			size := 0
			for _, c := range f {
				size += len(c.data)
			}
			frames = append(frames, frame{to: size})
		}
		build = func(i int) []byte { return stillPNG(before, all[i]) }
	}
	if len(frames) == 0 || len(frames) == 1 && b[0] == 'G' {
		return [][]byte{b}
	}
	stills := [][]byte{build(0)}
	best := 0
	for i, f := range frames {
		if f.to-f.from > frames[best].to-frames[best].from {
			best = i
		}
	}
	if f := frames[best]; f.to-f.from > 2*(frames[0].to-frames[0].from) {
		stills = append(stills, build(best))
	}
	return stills
}

// A frame is a place in a file.
type frame struct {
	from, to int
	image    int // of a GIF: where its descriptor is
	clear    int // and the colour that is transparent; -1 is none
}

// framesOfGIF returns the first frames, each with the extensions before it, and
// where the head with the global colours ends. The last may be cut off.
func framesOfGIF(b []byte, most int) (head int, all []frame) {
	if len(b) < 13 {
		return 0, nil
	}
	table := func(flags byte) int {
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	head = 13 + table(b[10])
	from, at, transparent := head, head, -1
	blocks := func() bool { // passes over data blocks
		for at < len(b) {
			n := int(b[at])
			at += 1 + n
			if n == 0 {
				return at <= len(b)
			}
		}
		return false
	}
	for at < len(b) && len(all) < most {
		switch b[at] {
		case 0x21:
			if at+7 < len(b) && b[at+1] == 0xf9 && b[at+2] >= 4 { // graphic control
				if transparent = -1; b[at+3]&1 != 0 {
					transparent = int(b[at+6])
				}
			}
			if at += 2; !blocks() {
				return head, all
			}
		case 0x2c:
			f := frame{from: from, image: at, clear: transparent}
			if at+10 > len(b) {
				return head, all
			}
			at += 10 + table(b[at+9]) + 1
			whole := blocks()
			f.to = min(at, len(b))
			all = append(all, f)
			if !whole {
				return head, all
			}
			from, transparent = at, -1
		default:
			return head, all
		}
	}
	return head, all
}

// framesOfWebP returns the payloads of frames (RFC 9649, section 2.7.1.1).
func framesOfWebP(b []byte) (all []frame) {
	for at := 12; at+8 <= len(b) && len(all) < maxFrames; {
		n := int(binary.LittleEndian.Uint32(b[at+4:]))
		end := at + 8 + n
		if string(b[at:at+4]) == "ANMF" && min(end, len(b)) > at+8+16 {
			all = append(all, frame{from: at + 8, to: min(end, len(b))})
		}
		at = end + n&1
	}
	return all
}

// stillWebP makes a file of one frame.
func stillWebP(f []byte) []byte {
	out := []byte("RIFF\x00\x00\x00\x00WEBP")
	if string(f[16:min(20, len(f))]) == "ALPH" {
		out = append(out, "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00"...)
		out = append(out, f[6:12]...)
	}
	out = append(out, f[16:]...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}
