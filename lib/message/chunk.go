package message

import "strconv"

// AppendChunk appends the line that begins a chunk of size bytes. CRLF must follow the data. A
// size of 0 would end the body: use [AppendLastChunk] for that.
func AppendChunk(dst []byte, size int) []byte {
	dst = strconv.AppendInt(dst, int64(size), 16)
	return append(dst, "\r\n"...)
}

// What FrameChunk needs in a block, before the data and behind it.
const (
	chunkLine = 10 // of eight digits at most
	chunkRest = 2 + len("0\r\n\r\n")
)

// ChunkRoom is the part of a block into which the data of a chunk is read, for [FrameChunk].
func ChunkRoom(block []byte) []byte { return block[chunkLine : len(block)-chunkRest] }

// FrameChunk makes n bytes, which were read into the room of block, a chunk, and returns it, without a
// copy. last ends the body.
func FrameChunk(block []byte, n int, last bool, trailer Fields) []byte {
	var line [chunkLine]byte
	start, b := chunkLine, block[:chunkLine]
	if n > 0 {
		head := AppendChunk(line[:0], n)
		start -= copy(block[chunkLine-len(head):], head)
		b = append(block[:chunkLine+n], "\r\n"...)
	}
	if last {
		b = AppendLastChunk(b, trailer) // a trailer may need a larger block
	}
	return b[start:]
}

// AppendLastChunk appends the end of a chunked body. Bytes in trailer that would end a line or
// a word are replaced (in names by "-", in values by a space), and a field without a name is
// omitted.
func AppendLastChunk(dst []byte, trailer Fields) []byte {
	dst = append(dst, "0\r\n"...)
	dst = appendFields(dst, trailer)
	return append(dst, "\r\n"...)
}

func appendFields(dst []byte, fs Fields) []byte {
	for i := range fs {
		if len(fs[i].Name) == 0 {
			continue
		}
		dst = appendToken(dst, fs[i].Name)
		dst = append(dst, ": "...)
		dst = appendValue(dst, fs[i].Value)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func appendToken(dst, s []byte) []byte {
	n := len(dst)
	dst = append(dst, s...)
	for i := n; i < len(dst); i++ {
		if class[dst[i]]&tokenByte == 0 {
			dst[i] = '-'
		}
	}
	return dst
}

func appendValue(dst, v []byte) []byte {
	n := len(dst)
	dst = append(dst, v...)
	for n += control(dst[n:]); n < len(dst); n += control(dst[n:]) {
		if dst[n] != '\t' {
			dst[n] = ' '
		}
		n++
	}
	return dst
}
