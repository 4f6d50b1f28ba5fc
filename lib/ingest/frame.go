package ingest

import (
	"encoding/binary"
	"hash/crc32"
)

// A segment begins with a header:
//
//	8 bytes  "SHULOG1\n"
//	8 bytes  sequence number of its first record
//	8 bytes  how many bytes of the segment before count
//	4 bytes  CRC-32C of these 24 bytes
//
// Frames follow, one for each batch:
//
//	4 bytes  mark
//	4 bytes  length of the records
//	8 bytes  sequence number of the first record
//	4 bytes  number of records
//	4 bytes  CRC-32C of the four fields before and the records
//	records: a length (uvarint) and the bytes of each
//
// Numbers are little-endian.

const (
	magic       = "SHULOG1\n"
	segmentHead = 28
	frameHead   = 24
	mark        = 0xb7a7c405
	suffix      = ".log"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(frame, record []byte) []byte {
	frame = binary.AppendUvarint(frame, uint64(len(record)))
	return append(frame, record...)
}

// seal fills in the head of a frame.
func seal(frame []byte, first uint64, records int) {
	le := binary.LittleEndian
	le.PutUint32(frame, mark)
	le.PutUint32(frame[4:], uint32(len(frame)-frameHead))
	le.PutUint64(frame[8:], first)
	le.PutUint32(frame[16:], uint32(records))
	le.PutUint32(frame[20:], checksum(frame))
}

func checksum(frame []byte) uint32 {
	sum := crc32.Update(0, castagnoli, frame[:20])
	return crc32.Update(sum, castagnoli, frame[frameHead:])
}

// A head is the head of a frame.
type head struct {
	length  int
	first   uint64
	records int
}

func parseHead(b []byte) (h head, ok bool) {
	le := binary.LittleEndian
	if len(b) < frameHead || le.Uint32(b) != mark {
		return h, false
	}
	h = head{int(le.Uint32(b[4:])), le.Uint64(b[8:]), int(le.Uint32(b[16:]))}
	// A record needs at least one byte for its length.
	return h, h.length <= maxGathered+maxAppend && h.records > 0 && h.records <= h.length
}

// split appends the records of a complete frame to dst. ok is false if the
// frame is damaged.
func split(dst [][]byte, frame []byte) (_ [][]byte, h head, ok bool) {
	h, ok = parseHead(frame)
	if !ok || len(frame) != frameHead+h.length || binary.LittleEndian.Uint32(frame[20:]) != checksum(frame) {
		return dst, h, false
	}
	rest, before := frame[frameHead:], len(dst)
	for len(rest) > 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return dst[:before], h, false
		}
		dst = append(dst, rest[n:n+int(size):n+int(size)])
		rest = rest[n+int(size):]
	}
	return dst, h, len(dst)-before == h.records
}

func newSegmentHead(first uint64, before int64) []byte {
	b := make([]byte, 0, segmentHead)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, first)
	b = binary.LittleEndian.AppendUint64(b, uint64(before))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseSegmentHead(b []byte) (first uint64, before int64, ok bool) {
	if len(b) < segmentHead || string(b[:8]) != magic || binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b[8:]), int64(binary.LittleEndian.Uint64(b[16:])), true
}
