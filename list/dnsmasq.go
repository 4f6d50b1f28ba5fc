package list

import (
	"bytes"
	"fmt"

	"shuultuur/list/files"
)

// dnsmasqLine reads address=/host/…, server=/host/ and local=/host/, each with one or more
// hosts. A server that no host can be, such as 127.0.0.1, stands for none.
func (p *parser) dnsmasqLine(s []byte) {
	if len(s) == 0 || s[0] == '#' {
		return
	}
	s = files.CutComment(s)
	key, value, ok := bytes.Cut(s, []byte("="))
	key = bytes.TrimSpace(key)
	switch string(key) {
	case "address", "server", "local":
	case "conf-file", "conf-dir", "addn-hosts", "hostsdir", "servers-file", "dhcp-hostsfile":
		p.refuse(s, notIncluded)
		return
	default:
		p.src.Ignored++
		return
	}
	value = bytes.TrimSpace(value)
	last := bytes.LastIndexByte(value, '/')
	if !ok || last <= 0 || value[0] != '/' {
		p.refuse(s, fmt.Sprintf("names no host: write %s=/host/", key))
		return
	}
	if to := value[last+1:]; string(key) != "address" && len(to) > 0 && !isSink(to) { // an upstream for the host, not a rule
		p.src.Ignored++
		return
	}
	for host := range bytes.SplitSeq(value[1:last], []byte("/")) {
		p.name(host, 0)
	}
}

// isDnsmasqLine reports whether a line looks like one of this format.
func isDnsmasqLine(s []byte) bool {
	return (bytes.HasPrefix(s, []byte("address=/")) || bytes.HasPrefix(s, []byte("server=/")) || bytes.HasPrefix(s, []byte("local=/"))) && !isRule(s)
}
