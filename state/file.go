package state

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"shuultuur/lib/atomicfile"
)

// The file that survives a restart: magic, records, and the CRC-32C of all before it (4 bytes,
// little endian). A record is a kind, the key, the expiry in Unix milliseconds (8 bytes,
// little endian), and a value preceded by its length (uvarint). A damaged file is not used at
// all: state may be lost, but never invented.
const (
	magic       = "shuultuur state 1\n"
	kindVerdict = 'v'
	kindSum     = 'c' // value: decimal
	kindSet     = 's' // value: bits
	recordHead  = 1 + 16 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("damaged, or not a file of this program")

// useFile loads file if it exists, and makes Close write it. A damaged file is
// set aside.
func (m *Memory) useFile(file string, log *slog.Logger) {
	m.file = file
	err := m.load(time.Now())
	if errors.Is(err, errDamaged) {
		err = errors.Join(err, atomicfile.SetAside(file))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the state from before the restart cannot be used; starting empty", "file", file, "error", err)
	}
}

// maxFile bounds the file: every verdict and counter that fits in memory.
func (m *Memory) maxFile() int64 { return m.size + maxCounters*(recordHead+setWords*8+2) + 1<<16 }

func (m *Memory) load(now time.Time) error {
	info, err := os.Stat(m.file)
	if err != nil {
		return err
	}
	if info.Size() > m.maxFile() {
		return fmt.Errorf("%d bytes exceed the free room: %w", info.Size(), errDamaged)
	}
	b, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	return parseFile(b, func(kind byte, key [16]byte, until time.Time, value []byte) {
		if kind == kindVerdict { // one that is over by a wrong clock is learned again
			if ttl := until.Sub(now); ttl > 0 {
				m.Put(context.Background(), key, value, ttl)
			}
			return
		}
		// What was used is not: the clock may be about to be set, and sweep knows whether it is believed.
		s := m.counters.of(key)
		s.mu.Lock()
		defer s.mu.Unlock()
		c := m.counters.at(s, key, kind == kindSet, until.UnixMilli(), 0)
		if c == nil {
			return
		}
		n := c.merge(value)
		if c.own != nil {
			*c.own = *c.all
		} else {
			c.mine = n
		}
	})
}

// parseFile reads records. It calls take only after it has verified all of them.
func parseFile(b []byte, take func(kind byte, key [16]byte, until time.Time, value []byte)) error {
	if len(b) < len(magic)+4 || string(b[:len(magic)]) != magic {
		return errDamaged
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errDamaged
	}
	for _, use := range []bool{false, true} {
		for b := body[len(magic):]; len(b) > 0; {
			if len(b) < recordHead {
				return errDamaged
			}
			size, n := binary.Uvarint(b[recordHead:])
			if n <= 0 || size > uint64(len(b)-recordHead-n) || bytes.IndexByte([]byte{kindVerdict, kindSum, kindSet}, b[0]) < 0 {
				return errDamaged
			}
			value := b[recordHead+n:][:size]
			if use {
				take(b[0], [16]byte(b[1:17]), time.UnixMilli(int64(binary.LittleEndian.Uint64(b[17:]))), value)
			}
			b = b[recordHead+n+int(size):]
		}
	}
	return nil
}

func appendRecord(b []byte, kind byte, key [16]byte, until int64, value []byte) []byte {
	b = append(append(b, kind), key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(until))
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// save writes the file atomically.
func (m *Memory) save() error {
	if err := atomicfile.Write(m.file, 0o600, m.writeTo); err != nil {
		return fmt.Errorf("keeping what is remembered in %s: %w", m.file, err)
	}
	return nil
}

func (m *Memory) writeTo(f *os.File) error {
	w := bufio.NewWriterSize(f, 1<<16)
	sum := uint32(0)
	put := func(b []byte) {
		sum = crc32.Update(sum, castagnoli, b)
		w.Write(b) //nolint:errcheck // Flush says it
	}
	put([]byte(magic))
	var b []byte
	for k, e := range m.cache.All {
		var key [16]byte
		binary.BigEndian.PutUint64(key[:8], k.Hi)
		binary.BigEndian.PutUint64(key[8:], k.Lo)
		b = appendRecord(b[:0], kindVerdict, key, e.until.UnixMilli(), e.value)
		put(b)
	}
	var value []byte
	for i := range m.counters.shard {
		s := &m.counters.shard[i]
		s.mu.Lock()
		for key, c := range s.m {
			kind := byte(kindSum)
			if c.own != nil {
				kind = kindSet
			}
			value = c.appendOwn(value[:0])
			b = appendRecord(b[:0], kind, key, c.until, value)
			put(b)
		}
		s.mu.Unlock()
	}
	w.Write(binary.LittleEndian.AppendUint32(nil, sum)) //nolint:errcheck // Flush says it
	return w.Flush()
}
