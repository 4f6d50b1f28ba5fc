package streams

import "strings"

// This file writes header blocks of responses (RFC 7541). Fields are literals without
// indexing, with names from the static table if possible: nothing must be looked up, kept or
// allocated, and no response reveals anything about another one (CRIME). Responses are some
// bytes longer.

// begun begins a header block.
func (h *headerBlock) begun() {
	h.block = h.block[:0]
	if h.resize { // the dynamic table is not used (RFC 7541 section 4.2)
		h.block, h.resize = append(h.block, 0x20), false
	}
}

// status begins the header block of a response.
func (h *headerBlock) status(code string) {
	h.begun()
	const first = 8 // index of the first status in the static table
	for i, usual := range [...]string{"200", "204", "206", "304", "400", "404", "500"} {
		if code == usual {
			h.block = append(h.block, 0x80|byte(first+i))
			return
		}
	}
	h.field(first, ":status", []byte(code))
}

// field adds a field to the block; index is that of its name in the static table, 0 for none.
func (h *headerBlock) field(index int, name string, value []byte) {
	if index > 0 {
		h.block = appendInt(h.block, 0, 4, index)
	} else {
		h.block = append(appendInt(append(h.block, 0), 0, 7, len(name)), name...)
	}
	h.block = append(appendInt(h.block, 0, 7, len(value)), value...)
}

// appendInt appends n with a prefix of bits, below the bits of first (RFC 7541 section 5.1).
func appendInt(b []byte, first byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(b, first|byte(n))
	}
	b = append(b, first|byte(most))
	for n -= most; n >= 128; n >>= 7 {
		b = append(b, 0x80|byte(n))
	}
	return append(b, byte(n))
}

// usualNames are names of response fields as servers write them, with their index in the
// static table (RFC 7541 appendix A).
var usualNames = [...]struct {
	index         int
	name, lowered string
}{
	{33, "Date", "date"}, {54, "Server", "server"}, {31, "Content-Type", "content-type"}, {28, "Content-Length", "content-length"},
	{44, "Last-Modified", "last-modified"}, {34, "ETag", "etag"}, {24, "Cache-Control", "cache-control"}, {18, "Accept-Ranges", "accept-ranges"},
	{26, "Content-Encoding", "content-encoding"}, {59, "Vary", "vary"}, {55, "Set-Cookie", "set-cookie"}, {36, "Expires", "expires"},
	{46, "Location", "location"}, {21, "Age", "age"}, {60, "Via", "via"}, {56, "Strict-Transport-Security", "strict-transport-security"},
	{20, "Access-Control-Allow-Origin", "access-control-allow-origin"}, {25, "Content-Disposition", "content-disposition"},
	{30, "Content-Range", "content-range"}, {45, "Link", "link"}, {53, "Retry-After", "retry-after"},
	{0, "Connection", "connection"}, {57, "Transfer-Encoding", "transfer-encoding"}, {0, "X-Content-Type-Options", "x-content-type-options"},
	{0, "X-Frame-Options", "x-frame-options"}, {0, "Content-Security-Policy", "content-security-policy"},
}

// lowerName returns the name of a field in HTTP/2 (RFC 9113 section 8.2), and its index in the
// static table, 0 for none. Usual names cost no allocation.
func lowerName(name []byte) (index int, as string) {
	for i := range usualNames {
		if u := &usualNames[i]; len(u.name) == len(name) && string(name) == u.name {
			return u.index, u.lowered
		}
	}
	return 0, strings.ToLower(string(name))
}
