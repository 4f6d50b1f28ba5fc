package proxy

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"shuultuur/filter"
)

func pseudonym() string {
	var b [8]byte
	rand.Read(b[:])
	v := binary.LittleEndian.Uint64(b[:])
	for i := range b {
		b[i] = filter.Crockford[v&31]
		v >>= 5
	}
	return string(b[:])
}

// basic returns the credentials of RFC 7617.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
