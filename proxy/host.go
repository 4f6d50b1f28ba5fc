package proxy

import (
	"strconv"
	"strings"
)

// appendHost appends a host as it appears in a URL.
func appendHost(dst []byte, host string) []byte {
	if strings.IndexByte(host, ':') < 0 {
		return append(dst, host...)
	}
	dst = append(append(dst, '['), host...)
	return append(dst, ']')
}

func appendPort(dst []byte, port uint16) []byte {
	return strconv.AppendUint(append(dst, ':'), uint64(port), 10)
}

// hostPort formats a tunnel's destination.
func hostPort(host string, port uint16) string {
	return string(appendPort(appendHost(nil, host), port))
}
