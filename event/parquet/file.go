package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math"
	"net/netip"
	"strings"

	"shuultuur/event"
)

// Physical types and other numbers of the format (parquet.thrift).
const (
	typeBoolean   = 0
	typeInt32     = 1
	typeInt64     = 2
	typeByteArray = 6

	convertedUTF8      = 0
	convertedMicros    = 10 // TIMESTAMP_MICROS
	repetitionRequired = 0
	encodingPlain      = 0
	encodingRLE        = 3
	codecGzip          = 2
	pageData           = 0
)

// A column has one value per row.
type column struct {
	name      string
	typ       int64
	converted int64                                 // -1: none
	put       func(dst []byte, r *event.Row) []byte // appends the values as PLAIN; nil for a boolean
	is        func(r *event.Row) bool               // the value of a boolean
}

func texts(name string, of func(*event.Row) string) column {
	return column{name, typeByteArray, convertedUTF8, func(dst []byte, r *event.Row) []byte {
		s := strings.ToValidUTF8(of(r), "\ufffd")
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
	}, nil}
}

func int64s(name string, converted int64, of func(*event.Row) int64) column {
	return column{name, typeInt64, converted, func(dst []byte, r *event.Row) []byte {
		return binary.LittleEndian.AppendUint64(dst, uint64(of(r)))
	}, nil}
}

func int32s(name string, of func(*event.Row) int) column {
	return column{name, typeInt32, -1, func(dst []byte, r *event.Row) []byte {
		return binary.LittleEndian.AppendUint32(dst, uint32(int32(max(min(of(r), math.MaxInt32), math.MinInt32))))
	}, nil}
}

func booleans(name string, of func(*event.Row) bool) column {
	return column{name, typeBoolean, -1, nil, of}
}

func address(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// columns are those of every file, in this order, with the names of the JSON
// lines.
var columns = []column{
	int64s("time", convertedMicros, func(r *event.Row) int64 { return r.Time.UnixMicro() }),
	int64s("duration_us", -1, func(r *event.Row) int64 { return r.Duration.Microseconds() }),
	texts("id", func(r *event.Row) string { return r.ID }),
	texts("client", func(r *event.Row) string { return address(r.Client) }),
	texts("user", func(r *event.Row) string { return r.User }),
	texts("policy", func(r *event.Row) string { return r.Policy }),
	texts("rule", func(r *event.Row) string { return r.Rule }),
	texts("action", func(r *event.Row) string { return r.Action.String() }),
	texts("proto", func(r *event.Row) string { return r.Proto.String() }),
	texts("method", func(r *event.Row) string { return r.Method }),
	texts("url", func(r *event.Row) string { return r.URL }),
	texts("host", func(r *event.Row) string { return r.Host }),
	int32s("port", func(r *event.Row) int { return int(r.Port) }),
	int32s("status", func(r *event.Row) int { return r.Status }),
	texts("type", func(r *event.Row) string { return r.Type }),
	int64s("bytes_in", -1, func(r *event.Row) int64 { return r.BytesIn }),
	int64s("bytes_out", -1, func(r *event.Row) int64 { return r.BytesOut }),
	int64s("head_out", -1, func(r *event.Row) int64 { return r.HeadOut }),
	int64s("looked", -1, func(r *event.Row) int64 { return r.Looked }),
	int64s("length", -1, func(r *event.Row) int64 { return r.Length }),
	int32s("score", func(r *event.Row) int { return r.Score }),
	texts("category", func(r *event.Row) string { return r.Category }),
	texts("evidence", func(r *event.Row) string { return r.Evidence }),
	texts("findings", func(r *event.Row) string { return r.Findings }),
	texts("note", func(r *event.Row) string { return r.Note }),
	booleans("learned", func(r *event.Row) bool { return r.Learned }),
	texts("server", func(r *event.Row) string { return address(r.Server) }),
	booleans("parent", func(r *event.Row) bool { return r.Parent }),
	texts("source", func(r *event.Row) string { return r.Source }),
	texts("unread", func(r *event.Row) string { return r.Unread }),
	texts("cache", func(r *event.Row) string { return r.Cache }),
	texts("picture", func(r *event.Row) string { return r.Picture }),
	texts("conversation", func(r *event.Row) string { return r.Conversation }),
	texts("minutes", func(r *event.Row) string { return r.Minutes }),
	texts("monitored", func(r *event.Row) string { return r.Monitored }),
	texts("signatures", func(r *event.Row) string { return r.Signatures }),
}

const magic = "PAR1"

// Append appends a Parquet file with rows: one row group, and for each column a
// page of PLAIN values, compressed by gzip. Nothing is null: unknown values are
// empty.
func Append(dst []byte, rows []event.Row) []byte {
	begin := len(dst)
	dst = append(dst, magic...)
	var plain []byte
	var zipped bytes.Buffer
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	type chunk struct{ at, plain, size int64 }
	chunks := make([]chunk, len(columns))
	for i := range columns {
		plain = columns[i].values(plain[:0], rows)
		zipped.Reset()
		zip.Reset(&zipped)
		_, _ = zip.Write(plain) // into memory
		_ = zip.Close()
		at := len(dst)
		head := thrift{buf: dst}
		head.i32(1, pageData)
		head.i32(2, int64(len(plain)))
		head.i32(3, int64(zipped.Len()))
		head.begin(5) // data_page_header
		head.i32(1, int64(len(rows)))
		head.i32(2, encodingPlain)
		head.i32(3, encodingRLE)
		head.i32(4, encodingRLE)
		head.end()
		head.stop()
		n := int64(len(head.buf) - at)
		dst = append(head.buf, zipped.Bytes()...)
		chunks[i] = chunk{int64(at - begin), n + int64(len(plain)), n + int64(zipped.Len())}
	}
	at, total := len(dst), int64(0)
	t := thrift{buf: dst}
	t.i32(1, 1) // version
	t.list(2, structs, len(columns)+1)
	t.element() // the root of the schema
	t.text(4, "event")
	t.i32(5, int64(len(columns)))
	t.end()
	for _, c := range columns {
		t.element()
		t.i32(1, c.typ)
		t.i32(3, repetitionRequired)
		t.text(4, c.name)
		if c.converted >= 0 {
			t.i32(6, c.converted)
		}
		if c.converted == convertedMicros { // with the logical type readers know that the zone is UTC
			t.begin(10)
			t.begin(8)         // TIMESTAMP
			t.field(1, isTrue) // isAdjustedToUTC
			t.begin(2)
			t.begin(2) // MICROS
			t.end()
			t.end()
			t.end()
			t.end()
		}
		t.end()
	}
	t.i64(3, int64(len(rows)))
	t.list(4, structs, 1)
	t.element() // the row group
	t.list(1, structs, len(columns))
	for i, c := range columns {
		t.element()
		t.i64(2, chunks[i].at)
		t.begin(3) // meta_data
		t.i32(1, c.typ)
		t.list(2, i32s, 1)
		t.zigzag(encodingPlain)
		t.list(3, binaries, 1)
		t.bytes(c.name)
		t.i32(4, codecGzip)
		t.i64(5, int64(len(rows)))
		t.i64(6, chunks[i].plain)
		t.i64(7, chunks[i].size)
		t.i64(9, chunks[i].at)
		t.end()
		t.end()
		total += chunks[i].plain
	}
	t.i64(2, total)
	t.i64(3, int64(len(rows)))
	t.end()
	t.text(6, "shuultuur")
	t.stop()
	dst = binary.LittleEndian.AppendUint32(t.buf, uint32(len(t.buf)-at))
	return append(dst, magic...)
}

// values appends the values of a column (PLAIN).
func (c *column) values(dst []byte, rows []event.Row) []byte {
	if c.put != nil {
		for i := range rows {
			dst = c.put(dst, &rows[i])
		}
		return dst
	}
	for i := range rows { // one bit per value, lowest first
		if i%8 == 0 {
			dst = append(dst, 0)
		}
		if c.is(&rows[i]) {
			dst[len(dst)-1] |= 1 << (i % 8)
		}
	}
	return dst
}
