package kafka

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
)

// A record is one event.
type record struct {
	at    int64 // milliseconds since 1970
	key   string
	value []byte
}

// size returns an upper bound of the record's bytes.
func (r *record) size() int { return len(r.key) + len(r.value) + 32 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const gzipped = 1 // codec in the attributes of a record batch

// appendBatch appends a record batch (format 2), compressed by gzip.
func appendBatch(dst []byte, records []record) []byte {
	first, last := records[0].at, records[0].at
	for i := range records {
		first, last = min(first, records[i].at), max(last, records[i].at)
	}
	var zipped bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed)
	var body, one []byte
	for i := range records {
		r := &records[i]
		body = append(body[:0], 0) // attributes
		body = binary.AppendVarint(body, r.at-first)
		body = binary.AppendVarint(body, int64(i))
		body = append(binary.AppendVarint(body, int64(len(r.key))), r.key...)
		body = append(binary.AppendVarint(body, int64(len(r.value))), r.value...)
		body = binary.AppendVarint(body, 0) // headers
		one = append(binary.AppendVarint(one[:0], int64(len(body))), body...)
		_, _ = zip.Write(one) // writing to memory cannot fail
	}
	_ = zip.Close()

	be := binary.BigEndian
	crced := be.AppendUint16(nil, gzipped)
	crced = be.AppendUint32(crced, uint32(len(records)-1)) // last_offset_delta
	crced = be.AppendUint64(crced, uint64(first))
	crced = be.AppendUint64(crced, uint64(last))
	crced = append(crced, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // no producer_id, producer_epoch, base_sequence
	crced = be.AppendUint32(crced, uint32(len(records)))
	crced = append(crced, zipped.Bytes()...)

	dst = be.AppendUint64(dst, 0)                        // base_offset
	dst = be.AppendUint32(dst, uint32(4+1+4+len(crced))) // what follows
	dst = append(dst, 0xff, 0xff, 0xff, 0xff, 2)         // partition_leader_epoch, magic
	dst = be.AppendUint32(dst, crc32.Checksum(crced, castagnoli))
	return append(dst, crced...)
}

// murmur2 is the hash with which Kafka's own clients choose a partition.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
